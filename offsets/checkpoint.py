"""Checkpoints: one write and one sync store the settled state of all changed queues and groups.

A round is appended to the newest generation's file. A new generation begins with the full state and
gets its name by an atomic rename once that is on the disk. It begins at the first round after
opening (so that nothing is appended after a torn tail), when the file is several times longer than
its live content, and after a failed write (a descriptor whose sync failed cannot be trusted). The
previous generation stays, in case the newest cannot be read.
docs/checkpoint-format.md describes the format.
"""

import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self
from uuid import UUID

from appendlog.files.durable_directories import DurableDirectories, existing_root
from appendlog.files.filesystem import FileSystem
from offsets.checkpoint_reading import CheckpointRecovery, checkpoint_path, read_checkpoint
from offsets.checkpoint_round import RoundContent, encode_round
from offsets.errors import CheckpointFailedError
from offsets.group_checkpoint import (
    GroupCheckpoint,
    GroupState,
    decode_group_key,
    encode_group_key,
    group_key,
)
from offsets.group_entries import GroupEntries
from offsets.queue_checkpoint import QueueCheckpoint, QueueState, decode_checkpoint

logger: Final = logging.getLogger("offsets.checkpoint")

COMPACTION_FACTOR: Final = 4
"""A new generation begins when the file is this many times longer than its live content."""

COMPACTION_BYTES_MIN: Final = 1024 * 1024
"""A shorter file is never compacted because of its length, in bytes."""


class WrittenRound(NamedTuple):
    """Round that is on the disk.

    Attributes:
        generation: Generation of its file.
        written_bytes: Number of bytes written; includes the state of all queues if it began the
            file.
    """

    generation: int
    written_bytes: int


class CheckpointStore:
    """Settled state of all queues and groups on the disk.

    For one thread at a time, never the event loop's: every round waits for the disk. Memory: the
    encoded state of every queue (56 bytes and the size of its acked ranges and redelivery counts)
    and of every group (96 bytes, its name and the same).

    Attributes:
        recovery: Report of the opening; its `entries` and `groups` are empty, because the caller
            has taken them.
    """

    def __init__(
        self,
        directory: Path,
        filesystem: FileSystem,
        recovery: CheckpointRecovery,
        compaction_bytes_min: int,
    ) -> None:
        """Continue from the state that was read; callers use `open`."""
        self.recovery = recovery
        self._directory = directory
        self._filesystem = filesystem
        self._directories = DurableDirectories(existing_root(filesystem, directory.parent))
        self._compaction_bytes_min = compaction_bytes_min
        self._generation = recovery.generation
        self._sources = recovery.sources
        self._entries, recovery.entries = recovery.entries, {}
        self._entry_bytes = sum(map(len, self._entries.values()))
        self._groups, recovery.groups = recovery.groups, GroupEntries()
        self._recovered_groups: dict[tuple[UUID, str], GroupCheckpoint] = {}
        self._descriptor = -1
        self._file_bytes = 0
        self._round = 0

    @classmethod
    def open(
        cls,
        directory: Path,
        filesystem: FileSystem,
        compaction_bytes_min: int = COMPACTION_BYTES_MIN,
    ) -> tuple[Self, dict[UUID, QueueCheckpoint], bool]:
        """Read the newest state; write nothing.

        A clean stop stays on record until the first round of this run is written. Call
        `write_round(())` before the first delivery, otherwise a crash looks like a clean stop.

        Args:
            directory: Directory `offsets`; the first round makes it.
            filesystem: File operations.
            compaction_bytes_min: A shorter file is not compacted because of its length, in bytes.

        Returns:
            The store, whose `take_groups` returns the groups. The last known state of every queue
            incarnation: it may be out of date (after damage a floor may be below the log's start)
            and may name incarnations that are gone. And whether the last stop was clean, so that
            nothing was delivered or settled since.

        Raises:
            CheckpointFailedError: The directory cannot be listed.
            UnsupportedCheckpointError: A file is of another version.
        """
        recovery = read_checkpoint(directory, filesystem)
        checkpoints = map(decode_checkpoint, recovery.entries.values())
        states = {checkpoint.incarnation: checkpoint for checkpoint in checkpoints}
        groups = recovery.group_checkpoints()
        store = cls(directory, filesystem, recovery, compaction_bytes_min)
        store._recovered_groups = groups
        return store, states, recovery.was_clean

    def take_groups(self) -> dict[tuple[UUID, str], GroupCheckpoint]:
        """Return the state that was read of each group, by incarnation and name, and discard it.

        Like a queue's state, it may be out of date and may name incarnations that are gone.
        """
        groups, self._recovered_groups = self._recovered_groups, {}
        return groups

    def write_round(
        self,
        states: Sequence[QueueState],
        removed: Sequence[UUID] = (),
        clean: bool = False,
        groups: Sequence[GroupState] = (),
        removed_groups: Sequence[tuple[UUID, str]] = (),
    ) -> WrittenRound:
        """Write the changed states to the disk; return when they are there.

        One write and one sync for all of them, in the calling thread. A failed round loses nothing:
        the next one writes everything again, to a new file.

        Args:
            states: Whole states, one for each changed queue; each replaces the state of its
                incarnation. Nothing in them may be above the log's recovery point, which itself
                must be on the disk: a later start treats what is missing below it as lost.
            removed: Incarnations to remove with all their groups, none of them in `states` or
                `groups`; unknown ones are ignored.
            clean: Whether this is the last round of a clean stop. The next round revokes it.
            groups: Whole states, one for each changed group, with the same rules.
            removed_groups: Groups to remove, by incarnation and name, none of them in `groups`;
                unknown ones are ignored.

        Returns:
            The generation of its file, and the number of bytes written.

        Raises:
            CheckpointFailedError: The write failed; the round may be on the disk or not.
        """
        changed = RoundContent(
            [state.encode() for state in states],
            [incarnation.bytes for incarnation in removed],
            [group.encode() for group in groups],
            [encode_group_key(incarnation, name) for incarnation, name in removed_groups],
        )
        self._remember(changed)
        try:
            if self._descriptor < 0 or self._is_overgrown():
                start = 0
                self._begin_generation(clean)
            else:
                start = self._file_bytes
                self._append(changed, clean)
        except OSError as cause:
            self.close()
            path = checkpoint_path(self._directory, self._generation)
            self._remove_temporary(path)
            raise CheckpointFailedError(path, cause) from cause
        return WrittenRound(self._generation, self._file_bytes - start)

    def supersede(self) -> WrittenRound:
        """Begin another generation, so that states from before the last round are never read again.

        Not even if the newest file is unreadable, because the one before it has the same content.

        Raises:
            CheckpointFailedError: The write failed; as for `write_round`.
        """
        self.close()
        return self.write_round(())

    @property
    def generation(self) -> int:
        """Number of the newest file."""
        return self._generation

    def close(self) -> None:
        """Close the file; a later round begins a new generation. Writes nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            # The rounds were synced when they were written, so a failing close loses nothing.
            with suppress(OSError):
                self._filesystem.close(descriptor)

    def _remember(self, changed: RoundContent) -> None:
        known = self._entries
        entries = {entry[:16]: entry for entry in changed.entries}
        gone = changed.removed
        removed_groups = [decode_group_key(key, 0)[0] for key in changed.removed_groups]
        groups = {group_key(entry) for entry in changed.groups}
        assert entries.keys().isdisjoint(gone)
        assert groups.isdisjoint(removed_groups)
        assert not gone or not groups or {key[0] for key in groups}.isdisjoint(gone)
        for incarnation, entry in entries.items():
            self._entry_bytes += len(entry) - len(known.get(incarnation, b""))
        known.update(entries)
        self._groups.apply(changed.groups, removed_groups)
        for incarnation in gone:
            self._entry_bytes -= len(known.pop(incarnation, b""))
            self._groups.remove_queue(incarnation)

    def _is_overgrown(self) -> bool:
        live_bytes = self._entry_bytes + self._groups.total_bytes
        limit = max(COMPACTION_FACTOR * live_bytes, self._compaction_bytes_min)
        return self._file_bytes > limit

    def _append(self, changed: RoundContent, clean: bool) -> None:
        buffers = self._encode(changed, clean)
        self._file_bytes = self._filesystem.write_all(
            self._descriptor, buffers, self._file_bytes, sync=True
        )
        self._round += 1

    def _begin_generation(self, clean: bool) -> None:
        self.close()
        # Also if it fails: a number is never used for two files.
        self._generation += 1
        self._round = 0
        everything = RoundContent(list(self._entries.values()), groups=list(self._groups))
        buffers = self._encode(everything, clean)
        filesystem = self._filesystem
        self._directories.make(filesystem, self._directory)
        path = checkpoint_path(self._directory, self._generation)
        temporary = path.with_name(f"{path.name}.tmp")
        self._descriptor = filesystem.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self._file_bytes = filesystem.write_all(self._descriptor, buffers, 0, sync=False)
        filesystem.fsync(self._descriptor)
        filesystem.rename(temporary, path)
        filesystem.sync_directory(self._directory)
        self._directories.sync(filesystem, self._directory)
        self._round = 1
        self._remove_superseded(path)

    def _remove_temporary(self, path: Path) -> None:
        """Free the space of an unfinished file: the next one may need it."""
        temporary = path.with_name(f"{path.name}.tmp")
        with suppress(OSError):
            if self._filesystem.exists(temporary):
                self._filesystem.unlink(temporary)

    def _encode(self, content: RoundContent, clean: bool) -> list[bytes]:
        return encode_round(
            self._generation,
            self._round,
            content,
            is_clean=clean,
            written_at_ns=time.time_ns(),
        )

    def _remove_superseded(self, newest: Path) -> None:
        """Remove all files but the newest and its predecessor; keep damaged ones aside."""
        keep = {newest.name, *(path.name for path in self._sources)}
        self._sources = [newest]
        damaged = {path.name for path in self.recovery.damaged_files}
        try:
            for name in self._filesystem.listdir(self._directory):
                if name in keep or not name.endswith((".log", ".log.tmp")):
                    continue
                path = self._directory / name
                if name in damaged:
                    self._filesystem.rename(path, path.with_name(f"{name}.damaged"))
                else:
                    self._filesystem.unlink(path)
        except OSError as cause:
            # The round is on the disk; the next generation removes the files that are left.
            logger.warning("cannot remove checkpoint in %s cause=%s", self._directory, cause)
