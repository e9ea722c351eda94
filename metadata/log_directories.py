"""Finds the log directories of a data directory, and foreign files among them.

A log is `<vhost>/<queue>/<incarnation>`: three real directories, the last one named by a UUID. A
directory with the mark `deleted` is no log any more. Everything else is foreign: a note, a copy, a
symbolic link, output of a file system check. The broker neither removes nor follows it.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from appendlog.files.deleted_mark import DELETED_MARK_NAME
from appendlog.reclaim.removal import remove_directory
from metadata.names import is_encoded_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from appendlog import FileSystem


_Entry = TypeVar("_Entry")

REMOVALS_MAX: Final = 100
"""Attempts to remove a directory while another process removes files in it."""


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One directory that has the form of a log.

    Attributes:
        path: Path of the directory.
        incarnation: Incarnation of the queue, from the directory's name.
        is_deleted: Whether it has the mark `deleted`.
        is_empty: Whether it contains no file.
    """

    path: Path
    incarnation: UUID
    is_deleted: bool = False
    is_empty: bool = False

    @property
    def encoded_vhost(self) -> str:
        """Name of its virtual host, encoded by `encode_name`."""
        return self.path.parent.parent.name

    @property
    def encoded_queue(self) -> str:
        """Name of its queue, encoded by `encode_name`."""
        return self.path.parent.name


@dataclass(slots=True)
class FoundLogs:
    """Content of a directory of logs.

    Attributes:
        logs: All directories that have the form of a log, by path.
        foreign_paths: Foreign files, links and directories; their content was not read.
        unreadable: Directories that cannot be listed, and why.
    """

    logs: list[LogDirectory] = field(default_factory=list)
    foreign_paths: list[Path] = field(default_factory=list)
    unreadable: list[tuple[Path, OSError]] = field(default_factory=list)

    def check(self) -> list[LogDirectory]:
        """Return the logs.

        Raises:
            OSError: A directory cannot be read, so there may be more logs.
        """
        for _, error in self.unreadable:
            raise error
        return self.logs


def find_logs(root: Path, filesystem: FileSystem) -> FoundLogs:
    """Search a directory of logs, three levels deep; blocks.

    Args:
        root: `logs` or `spill` of a data directory; may be missing.
        filesystem: All file operations.
    """
    found = FoundLogs()
    for vhost in _named_directories(root, filesystem, found):
        _find_in_vhost(vhost, filesystem, found)
    return found


def logs_of_vhost(directory: Path, filesystem: FileSystem) -> list[LogDirectory]:
    """Return the logs of all queues of a virtual host.

    Args:
        directory: `logs/<vhost>`; may be missing.
        filesystem: All file operations.

    Raises:
        OSError: A directory cannot be read.
    """
    found = FoundLogs()
    _find_in_vhost(directory, filesystem, found)
    return found.check()


def logs_of_queue(directory: Path, filesystem: FileSystem) -> list[LogDirectory]:
    """Return the logs of all incarnations of one queue.

    Args:
        directory: `logs/<vhost>/<queue>`; may be missing.
        filesystem: All file operations.

    Raises:
        OSError: A directory cannot be read.
    """
    found = FoundLogs()
    _find_in_queue(directory, filesystem, found)
    return found.check()


def remove_log(path: Path, filesystem: FileSystem) -> None:
    """Remove a log with everything in its directory, durably; blocks.

    Another thread or process may remove it at the same time.

    Raises:
        OSError: A file or directory cannot be removed.
    """
    for _ in range(REMOVALS_MAX):
        try:
            remove_directory(path, filesystem)
        except FileNotFoundError:
            continue
        return
    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))


def _find_in_vhost(directory: Path, filesystem: FileSystem, found: FoundLogs) -> None:
    for queue in _named_directories(directory, filesystem, found):
        _find_in_queue(queue, filesystem, found)


def _find_in_queue(directory: Path, filesystem: FileSystem, found: FoundLogs) -> None:
    for path in _directories(directory, filesystem, found):
        incarnation = _incarnation(path.name)
        if incarnation is None:
            found.foreign_paths.append(path)
            continue
        names = _listed(path, filesystem.listdir, found)
        found.logs.append(
            LogDirectory(path, incarnation, DELETED_MARK_NAME in names, is_empty=names == [])
        )


def _named_directories(parent: Path, filesystem: FileSystem, found: FoundLogs) -> list[Path]:
    """Return the directories whose names may be those of virtual hosts or queues."""
    named: list[Path] = []
    for path in _directories(parent, filesystem, found):
        (named if is_encoded_name(path.name) else found.foreign_paths).append(path)
    return named


def _directories(parent: Path, filesystem: FileSystem, found: FoundLogs) -> list[Path]:
    directories: list[Path] = []
    for name, is_directory in sorted(_listed(parent, filesystem.scandir, found)):
        (directories if is_directory else found.foreign_paths).append(parent / name)
    return directories


def _listed(
    directory: Path, list_: Callable[[Path], list[_Entry]], found: FoundLogs
) -> Sequence[_Entry]:
    """Return what a method of the file system lists; note a directory that it cannot read."""
    try:
        return list_(directory)
    except FileNotFoundError:
        # It was never created, or is being removed at the same time.
        return ()
    except OSError as error:
        found.unreadable.append((directory, error))
        return ()


def _incarnation(name: str) -> UUID | None:
    """Return the UUID in a directory's name, if it is written as the server writes it."""
    try:
        incarnation = UUID(name)
    except ValueError:
        return None
    return incarnation if str(incarnation) == name else None
