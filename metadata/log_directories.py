"""Finds the log directories of a data directory, and foreign files among them.

A log is `<vhost>/<queue>/<incarnation>`: three real directories, the last one named by a UUID. A
directory with the mark `deleted` is no log any more. Everything else is foreign: a note, a copy, a
symbolic link, output of a file system check. The broker neither removes nor follows it.
"""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from appendlog.files.bulk_reads import PATHS_AT_ONCE, READERS, list_directories
from appendlog.files.deleted_mark import DELETED_MARK_NAME
from appendlog.reclaim.removal import remove_directory
from metadata.names import is_encoded_name, is_incarnation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from appendlog import FileSystem

    _FindInQueues = Callable[[list[str]], "FoundLogs"]


REMOVALS_MAX: Final = 100
"""Attempts to remove a directory while another process removes files in it."""


class LogDirectory(NamedTuple):
    """One directory that has the form of a log.

    Attributes:
        root: Path of the directory of its virtual host.
        encoded_vhost: Name of its virtual host, encoded by `encode_name`.
        encoded_queue: Name of its queue, encoded by `encode_name`.
        name: Name of the directory: incarnation of the queue, in canonical spelling.
        is_deleted: Whether it has the mark `deleted`.
        is_empty: Whether it contains no file.
    """

    root: str
    encoded_vhost: str
    encoded_queue: str
    name: str
    is_deleted: bool = False
    is_empty: bool = False

    @property
    def path(self) -> Path:
        """Path of the directory."""
        return Path(self.root, self.encoded_queue, self.name)

    @property
    def incarnation(self) -> UUID:
        """Incarnation of the queue."""
        return UUID(self.name)


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
    for vhost in _named(str(root), _listed(str(root), filesystem, found), is_encoded_name, found):
        _find_in_vhost(f"{root}/{vhost}", filesystem, found)
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
    _find_in_vhost(str(directory), filesystem, found)
    return found.check()


def logs_of_queue(directory: Path, filesystem: FileSystem) -> list[LogDirectory]:
    """Return the logs of all incarnations of one queue.

    Args:
        directory: `logs/<vhost>/<queue>`; may be missing.
        filesystem: All file operations.

    Raises:
        OSError: A directory cannot be read.
    """
    return _find_in_queues(str(directory.parent), filesystem, [directory.name]).check()


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


def _find_in_vhost(directory: str, filesystem: FileSystem, found: FoundLogs) -> None:
    """Find the logs of all queues of a virtual host."""
    queues = _named(directory, _listed(directory, filesystem, found), is_encoded_name, found)
    groups = [queues[at : at + PATHS_AT_ONCE] for at in range(0, len(queues), PATHS_AT_ONCE)]
    for part in _in_threads(partial(_find_in_queues, directory, filesystem), groups):
        found.logs += part.logs
        found.foreign_paths += part.foreign_paths
        found.unreadable += part.unreadable


def _in_threads(find: _FindInQueues, groups: list[list[str]]) -> list[FoundLogs]:
    """Find the logs of each group; of more than one in several threads, which wait for the disk."""
    if len(groups) > 1:
        # No thread is left: what cannot do without one says so.
        with suppress(RuntimeError), ThreadPoolExecutor(READERS, "log directories") as listers:
            return list(listers.map(find, groups))
    return list(map(find, groups))


def _find_in_queues(directory: str, filesystem: FileSystem, queues: Sequence[str]) -> FoundLogs:
    """Find the logs of some queues of a virtual host, at most `PATHS_AT_ONCE`."""
    found = FoundLogs()
    vhost = Path(directory).name
    paths = [f"{directory}/{queue}" for queue in queues]
    logs = [
        (queue, name)
        for queue, path, listed in zip(
            queues, paths, _all_listed(paths, filesystem, found), strict=True
        )
        for name in _named(path, listed, is_incarnation, found)
    ]
    for at in range(0, len(logs), PATHS_AT_ONCE):
        some = logs[at : at + PATHS_AT_ONCE]
        paths = [f"{directory}/{queue}/{name}" for queue, name in some]
        for (queue, name), listed in zip(some, _all_listed(paths, filesystem, found), strict=True):
            is_deleted = any(each == DELETED_MARK_NAME for each, _ in listed)
            is_empty = listed == []
            found.logs.append(LogDirectory(directory, vhost, queue, name, is_deleted, is_empty))
    return found


def _named(
    parent: str,
    entries: Sequence[tuple[str, bool]],
    is_ours: Callable[[str], bool],
    found: FoundLogs,
) -> list[str]:
    """Return the names of the directories that may be ours, sorted; note the other entries."""
    named: list[str] = []
    for name, is_directory in sorted(entries):
        if is_directory and is_ours(name):
            named.append(name)
        else:
            found.foreign_paths.append(Path(parent, name))
    return named


def _all_listed(
    directories: Sequence[str], filesystem: FileSystem, found: FoundLogs
) -> list[Sequence[tuple[str, bool]]]:
    """Return what is in each directory; note those that cannot be read."""
    return [
        _listed(directory, filesystem, found) if entries is None else entries
        for directory, entries in zip(
            directories, list_directories(filesystem, directories), strict=True
        )
    ]


def _listed(directory: str, filesystem: FileSystem, found: FoundLogs) -> Sequence[tuple[str, bool]]:
    """Return what is in a directory; note one that cannot be read."""
    path = Path(directory)
    try:
        return filesystem.scandir(path)
    except FileNotFoundError:
        # It was never created, or is being removed at the same time.
        return ()
    except OSError as error:
        found.unreadable.append((path, error))
        return ()
