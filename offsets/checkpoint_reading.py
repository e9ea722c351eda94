"""Reading checkpoint files after any kind of stop, and while a server is running.

A round holds whole states of queues and groups, and a later state of the same one wins. So a round
that is lost, torn or damaged can only make the result out of date: some settled messages are
delivered again. It can never settle too much, which would lose messages. That is why reading
continues after damage.

The newest generation begins with the full state, so it is sufficient if its first round is whole.
Otherwise the previous generation is replayed first; the readable rounds of the newest one follow,
because it began where the previous one ended.
"""

import errno
import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import UUID

from appendlog.files.filesystem import FileSystem
from offsets.checkpoint_round import VERSION, Round, decode_round, find_round
from offsets.errors import CheckpointFailedError, UnsupportedCheckpointError
from offsets.group_checkpoint import GroupCheckpoint, decode_group_checkpoint
from offsets.group_entries import GroupEntries
from offsets.round_frame import UnknownVersionError

logger: Final = logging.getLogger("offsets.checkpoint_reading")

_LOOKS_MAX: Final = 100
"""Maximum number of listings of the directory, if files are removed each time."""

_FILE_NAME: Final = re.compile(r"checkpoint-([0-9]{20})\.log")


@dataclass(slots=True)
class CheckpointRecovery:
    """Result of reading the checkpoint files.

    Attributes:
        generation: Highest generation found, readable or not; 0 if there is none.
        was_clean: Whether the last round is that of a clean stop, and all files are whole.
        rounds: Number of rounds read.
        torn_bytes: Size of a round that a crash interrupted; normal.
        damaged_files: Files in which something that was on the disk once cannot be read.
        entries: Encoded queue checkpoints, by the bytes of their incarnation.
        groups: Encoded group checkpoints.
        sources: Files that both were read from.
    """

    generation: int = 0
    was_clean: bool = False
    rounds: int = 0
    torn_bytes: int = 0
    damaged_files: list[Path] = field(default_factory=list)
    entries: dict[bytes, bytes] = field(default_factory=dict)
    groups: GroupEntries = field(default_factory=GroupEntries)
    sources: list[Path] = field(default_factory=list)

    def group_checkpoints(self) -> dict[tuple[UUID, str], GroupCheckpoint]:
        """Return the checkpoint of every group, by incarnation of its queue and by its name."""
        decoded = map(decode_group_checkpoint, self.groups)
        return {(group.incarnation, group.name): group for group in decoded}


def checkpoint_path(directory: Path, generation: int) -> Path:
    """Return the path of one generation's file."""
    return directory / f"checkpoint-{generation:020}.log"


def read_checkpoint(directory: Path, filesystem: FileSystem) -> CheckpointRecovery:
    """Read the checkpoint files of a directory; changes nothing.

    Safe while a writer is running: at worst the last round is missing.

    Args:
        directory: Directory `offsets`; may be missing, which is the same as empty.
        filesystem: File operations.

    Raises:
        CheckpointFailedError: The directory cannot be listed, or files are removed faster than
            they can be read.
        UnsupportedCheckpointError: A file is of another version; then nothing may be written.
    """
    for _ in range(_LOOKS_MAX):
        generations = checkpoint_generations(directory, filesystem)
        files = _read_files(directory, generations, filesystem)
        if files is not None:
            break
    else:
        path = checkpoint_path(directory, generations[-1])
        raise CheckpointFailedError(path, FileNotFoundError(errno.ENOENT, "removed while read"))
    recovery = CheckpointRecovery(generation=generations[-1] if generations else 0)
    for file in reversed(files):
        file.replay(recovery)
    last = files[0] if files else None
    recovery.was_clean = last is not None and last.is_clean and not recovery.damaged_files
    return recovery


def checkpoint_generations(directory: Path, filesystem: FileSystem) -> list[int]:
    """Return the generations that have a file, in ascending order.

    Raises:
        CheckpointFailedError: The directory cannot be listed.
    """
    try:
        names = filesystem.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as cause:
        raise CheckpointFailedError(directory, cause) from cause
    return sorted(int(match[1]) for name in names if (match := _FILE_NAME.fullmatch(name)))


def _read_files(
    directory: Path, generations: list[int], filesystem: FileSystem
) -> "list[_CheckpointFile] | None":
    """Return the files that are needed, newest first; None if the caller must list again.

    A missing file was compacted away since the listing, and a newer file that is not in the list
    has all its content. If no older file is whole by itself, all of them were removed.
    """
    files: list[_CheckpointFile] = []
    is_overtaken = False
    for generation in reversed(generations):
        file = _read_file(checkpoint_path(directory, generation), generation, filesystem)
        if file is None:
            is_overtaken = True
            continue
        files.append(file)
        if file.begins_with_base:
            return files
    return None if is_overtaken else files


def _read_file(path: Path, generation: int, filesystem: FileSystem) -> "_CheckpointFile | None":
    try:
        descriptor = filesystem.open(path, os.O_RDONLY)
        try:
            data = filesystem.read_all(descriptor, filesystem.size(descriptor), 0)
        finally:
            filesystem.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning("unreadable checkpoint path=%s cause=%s", path, error)
        data = b""
    try:
        return _CheckpointFile(path, generation, data)
    except UnknownVersionError as error:
        raise UnsupportedCheckpointError(path, error.found, VERSION) from error


class _CheckpointFile:
    """Valid rounds of one file, and the bytes between them."""

    def __init__(self, path: Path, generation: int, data: bytes) -> None:
        self.path = path
        self.rounds: list[Round] = []
        self.torn_bytes = 0
        self.is_damaged = False
        self._generation = generation
        self._collect(data)
        self.begins_with_base = bool(self.rounds) and self.rounds[0].is_base
        # A file gets its name only after its first round is on the disk, so that cannot be torn.
        if not self.begins_with_base:
            self.is_damaged = True

    @property
    def is_clean(self) -> bool:
        """Whether the last round in the file is that of a clean stop."""
        return not self.torn_bytes and bool(self.rounds) and self.rounds[-1].is_clean

    def replay(self, recovery: CheckpointRecovery) -> None:
        """Apply this file's rounds to the state of the older files."""
        for found in self.rounds:
            if found.is_base:
                recovery.entries.clear()
                recovery.groups.clear()
            recovery.entries.update(found.entries)
            recovery.groups.apply(found.groups, found.removed_groups)
            for incarnation in found.removed:
                recovery.entries.pop(incarnation, None)
                recovery.groups.remove_queue(incarnation)
        recovery.rounds += len(self.rounds)
        recovery.torn_bytes += self.torn_bytes
        recovery.sources.append(self.path)
        if self.is_damaged:
            recovery.damaged_files.append(self.path)

    def _collect(self, data: bytes) -> None:
        position = number = 0
        while position < len(data):
            found = decode_round(data, position)
            if found is None:
                # Nothing valid follows: a crash interrupted the last round. Something valid
                # follows: damage, because a round is written only after the one before it is on the
                # disk.
                begin = find_round(data, position + 1)
                if begin < 0:
                    self.torn_bytes = len(data) - position
                    return
                self.is_damaged = True
                position = begin
                continue
            position = found.end
            if found.generation != self._generation or found.number < number:
                self.is_damaged = True
                continue
            self.is_damaged |= found.number > number
            self.rounds.append(found)
            number = found.number + 1
