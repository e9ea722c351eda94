"""Back-ups in one directory, each named by its time; the oldest are removed.

    2026-11-30T21-01-53Z            a good back-up: whole, and checked
    2026-11-30T21-01-53Z.partial    being made; after an interruption the next run removes it
    2026-11-30T21-01-53Z.damaged    whole, but the check found damage: it is never counted
    2026-11-30T21-01-53Z.removing   being removed; after an interruption the next run goes on
    .amqp-server-backup-lock        locked by the run that works here, with its process number

A back-up has its plain name only after its check, and loses it before its first file is removed. So
an interruption at any moment leaves no half back-up with the name of a whole one. What has another
name is foreign, and stays. So does a back-up on which a server has started: it may be somebody's
data directory now.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from amqp_server.base.errors import StartupError
from amqp_server.recovery.start_report_file import REPORT_NAME
from appendlog import DurableDirectories, FileSystem
from appendlog.files.durable_directories import existing_root
from metadata.data_format import FORMAT_NAME, read_format
from metadata.double_lock import LOCK_NAME, WRITER_NAME, DoubleLock
from metadata.errors import StorageFormatError, StorageLockedError
from metadata.names import LOGS_NAME
from metadata.reading_lock import is_live

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SERIES_LOCK_NAME: Final = ".amqp-server-backup-lock"
"""File that a run locks, together with the directory of the back-ups."""
PARTIAL: Final = ".partial"
DAMAGED: Final = ".damaged"
REMOVING: Final = ".removing"
KEEP_MAX: Final = 10_000
"""Most good back-ups that a series may be told to keep."""
_TIME: Final = "%Y-%m-%dT%H-%M-%SZ"
_NAME: Final = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}Z)(\.[a-z]+)?", re.ASCII)
_PARTS: Final = frozenset(
    {
        *("metadata", LOGS_NAME, "offsets", "transactions"),
        *(FORMAT_NAME, f"{FORMAT_NAME}.tmp", WRITER_NAME, REPORT_NAME),
    }
)
"""Everything that an interrupted back-up may have."""
_NAMES_AHEAD_MAX: Final = 1000
"""Seconds that are tried for a name, from now on."""


class BackupSeries:
    """The back-ups in one directory.

    Args:
        directory: Directory of the back-ups.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._filesystem = FileSystem()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other runs out of the directory, which is created if it is missing.

        Raises:
            StartupError: Another run works in it.
            OSError: It cannot be created or locked.
        """
        filesystem = self._filesystem
        root = existing_root(filesystem, self._directory)
        DurableDirectories(root).make(filesystem, self._directory)
        lock = DoubleLock(self._directory / SERIES_LOCK_NAME, self._directory)
        try:
            held = lock.hold()
        except StorageLockedError as error:
            holder = "another process" if error.pid is None else f"process {error.pid}"
            raise StartupError(f"{self._directory}: {holder} makes a back-up there now") from error
        try:
            yield
        finally:
            held.release()

    def good(self) -> list[Path]:
        """Return the good back-ups, by name: oldest first, unless the clock was set back."""
        return [path for path in self._named("") if self._is_unused_copy(path)]

    def damaged(self) -> list[Path]:
        """Return the copies in which the check found damage, by name."""
        return self._named(DAMAGED)

    def later_than(self, seconds: float) -> list[Path]:
        """Return the good back-ups whose names are later than a time.

        Args:
            seconds: Time in seconds since 1970, UTC.
        """
        name = _time_name(int(seconds))
        return [path for path in self.good() if path.name > name]

    def begin(self) -> Path:
        """Return the path for a new back-up while it is made; nothing is there.

        Its name is later than those of back-ups made in the same second, or a little ahead.

        Raises:
            StartupError: No name is free.
        """
        now = int(time.time())
        names = [_time_name(now + ahead) for ahead in range(_NAMES_AHEAD_MAX)]
        found = {match[1] for match in map(_NAME.fullmatch, self._names()) if match is not None}
        latest = max(found.intersection(names), default="")
        for name in names:
            if name > latest:
                return self._directory / f"{name}{PARTIAL}"
        raise StartupError(f"{self._directory}: all names of the next seconds are taken")

    def end(self, partial: Path, *, is_good: bool) -> Path:
        """Give a back-up that is whole its name, durably; return its path.

        Args:
            partial: Path from `begin`.
            is_good: Whether the check found no damage.

        Raises:
            OSError: It cannot be renamed.
        """
        name = partial.name.removesuffix(PARTIAL)
        return self._rename(partial, name if is_good else f"{name}{DAMAGED}")

    def discard(self, partial: Path) -> None:
        """Remove what a failed run has made of a back-up.

        Raises:
            OSError: Something cannot be removed; the next run tries again.
        """
        if partial.is_dir():
            rmtree(partial)

    def remove_leftovers(self) -> tuple[list[Path], list[Path]]:
        """Remove what interrupted runs have left; call it while the series is held.

        Returns:
            What was removed; and what has such a name, but also files of somebody else: it stays.

        Raises:
            OSError: Something cannot be removed.
        """
        removed = self._named(REMOVING)
        foreign = []
        for path in self._named(PARTIAL):
            if all(each.name in _PARTS for each in path.iterdir()):
                removed.append(path)
            else:
                foreign.append(path)
        for path in removed:
            rmtree(path)
        return removed, foreign

    def remove_oldest(self, newest: Path, keep: int, later: Sequence[Path] = ()) -> list[Path]:
        """Remove the oldest good back-ups; return their paths.

        Args:
            newest: The back-up that was just made. It stays, whatever the clock said.
            keep: How many good ones stay, 1 to `KEEP_MAX`.
            later: Those from `later_than`. They stay and do not count: with names from the future
                they would push out each new one.

        Raises:
            OSError: One cannot be removed. It has no name of a back-up any more, or is whole.
        """
        others = [path for path in self.good() if path != newest and path not in later]
        return self._remove(others[: max(0, len(others) - (keep - 1))])

    def remove_damaged(self) -> list[Path]:
        """Remove the damaged copies between the oldest and the newest; return their paths.

        The data keep their damage until somebody repairs them: a copy each night would fill the
        disk, and tell nothing new.

        Raises:
            OSError: As for `remove_oldest`.
        """
        return self._remove(self.damaged()[1:-1])

    def _remove(self, paths: list[Path]) -> list[Path]:
        for path in paths:
            # First the name, durably: what is half removed must not look like a back-up.
            rmtree(self._rename(path, f"{path.name}{REMOVING}"))
        return paths

    def _rename(self, path: Path, name: str) -> Path:
        target = self._directory / name
        self._filesystem.rename(path, target)
        self._filesystem.sync_directory(self._directory)
        return target

    def _named(self, ending: str) -> list[Path]:
        """Return the directories with a name of ours that has this ending."""
        found = []
        for name in sorted(self._names()):
            match = _NAME.fullmatch(name)
            path = self._directory / name
            if match is None or (match[2] or "") != ending or path.is_symlink():
                continue
            if path.is_dir():
                found.append(path)
        return found

    def _names(self) -> list[str]:
        try:
            return self._filesystem.listdir(self._directory)
        except FileNotFoundError:
            return []

    def _is_unused_copy(self, path: Path) -> bool:
        """Return whether a directory is a data directory on which no server has started."""
        try:
            read_format(path)
        except (OSError, StorageFormatError):
            return False
        return not (path / LOCK_NAME).exists() and not is_live(path)


def _time_name(seconds: int) -> str:
    return time.strftime(_TIME, time.gmtime(seconds))
