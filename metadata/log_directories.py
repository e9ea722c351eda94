"""Which log directories there are, and what lies beside them that is none.

A log is `<vhost>/<queue>/<incarnation>`: three real directories, the last one named by a UUID. It
is no log any more when it has the mark `deleted`. Everything else is somebody else's: a note, a
copy, a symbolic link, what a file system check found. Nobody removes or follows that.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from uuid import UUID

from appendlog.files.deleted_mark import DELETED_MARK_NAME
from appendlog.reclaim.removal import remove_directory
from metadata.names import is_encoded_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from appendlog import FileSystem


REMOVALS_MAX: Final = 100
"""How often a removal begins again because somebody else removes in the same directory."""


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One directory that has the form of a log.

    Attributes:
        path: Where it lies.
        incarnation: Which life of the queue, as its name says.
        is_deleted: Whether it has the mark `deleted`.
        is_empty: Whether there is no file in it.
    """

    path: Path
    incarnation: UUID
    is_deleted: bool = False
    is_empty: bool = False

    @property
    def encoded_vhost(self) -> str:
        """Its virtual host, as `encode_name` gives it."""
        return self.path.parent.parent.name

    @property
    def encoded_queue(self) -> str:
        """Its queue, as `encode_name` gives it."""
        return self.path.parent.name


@dataclass(slots=True)
class FoundLogs:
    """What lies below a directory of logs.

    Attributes:
        logs: All directories that have the form of a log, by path.
        strangers: Files, links and directories that have not; what is in them was not looked at.
        unreadable: Directories that cannot be listed, and why.
    """

    logs: list[LogDirectory] = field(default_factory=list)
    strangers: list[Path] = field(default_factory=list)
    unreadable: list[tuple[Path, OSError]] = field(default_factory=list)

    def check(self) -> list[LogDirectory]:
        """Return the logs.

        Raises:
            OSError: A directory cannot be read, so there may be more.
        """
        for _, error in self.unreadable:
            raise error
        return self.logs


def find_logs(root: Path, filesystem: FileSystem) -> FoundLogs:
    """Look through a directory of logs, three levels deep; blocks.

    Args:
        root: `logs` or `spill` of a data directory; may be absent.
        filesystem: All file calls go through it.
    """
    found = FoundLogs()
    for vhost in _named_directories(root, filesystem, found):
        _find_in_vhost(vhost, filesystem, found)
    return found


def logs_of_vhost(directory: Path, filesystem: FileSystem) -> list[LogDirectory]:
    """Return the logs of all queues of a virtual host.

    Args:
        directory: `logs/<vhost>`; may be absent.
        filesystem: All file calls go through it.

    Raises:
        OSError: A directory cannot be read.
    """
    found = FoundLogs()
    _find_in_vhost(directory, filesystem, found)
    return found.check()


def logs_of_queue(directory: Path, filesystem: FileSystem) -> list[LogDirectory]:
    """Return the logs of all lives of one queue.

    Args:
        directory: `logs/<vhost>/<queue>`; may be absent.
        filesystem: All file calls go through it.

    Raises:
        OSError: A directory cannot be read.
    """
    found = FoundLogs()
    _find_in_queue(directory, filesystem, found)
    return found.check()


def remove_log(path: Path, filesystem: FileSystem) -> None:
    """Remove a log with all that is in its directory, durably; blocks.

    Somebody else may be removing it at the same time.

    Raises:
        OSError: Something cannot be removed.
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
            found.strangers.append(path)
            continue
        names = _names(path, filesystem, found)
        found.logs.append(
            LogDirectory(path, incarnation, DELETED_MARK_NAME in names, is_empty=names == [])
        )


def _named_directories(parent: Path, filesystem: FileSystem, found: FoundLogs) -> list[Path]:
    """Return the directories that may be those of virtual hosts or queues, by their names."""
    directories = _directories(parent, filesystem, found)
    named = [path for path in directories if is_encoded_name(path.name)]
    found.strangers += set(directories).difference(named)
    return named


def _directories(parent: Path, filesystem: FileSystem, found: FoundLogs) -> list[Path]:
    paths = [parent / name for name in sorted(_names(parent, filesystem, found))]
    directories = [path for path in paths if filesystem.is_directory(path)]
    found.strangers += set(paths).difference(directories)
    return directories


def _names(directory: Path, filesystem: FileSystem, found: FoundLogs) -> Sequence[str]:
    try:
        return filesystem.listdir(directory)
    except FileNotFoundError:
        # Never made, or removed beside this.
        return ()
    except OSError as error:
        found.unreadable.append((directory, error))
        return ()


def _incarnation(name: str) -> UUID | None:
    """Return the UUID that a directory is named by, written as the server writes it."""
    try:
        incarnation = UUID(name)
    except ValueError:
        return None
    return incarnation if str(incarnation) == name else None
