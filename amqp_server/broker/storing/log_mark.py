"""Deletion marks on a queue's logs, set before the queue's definition is removed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from metadata.log_directories import logs_of_queue

if TYPE_CHECKING:
    from pathlib import Path

    from appendlog import DurableDirectories, FileSystem


@dataclass(slots=True)
class LogMark:
    """Marks one log as deleted. Its methods block on the disk.

    Attributes:
        directory: Directory of the log; missing until the log writes something.
        directories: Creator of log directories; keeps marks for missing ones.
        filesystem: File system that makes all file calls.
    """

    directory: Path
    directories: DurableDirectories
    filesystem: FileSystem

    def set(self) -> None:
        """Write the mark to the disk; a missing directory gets it when it is created."""
        self.directories.mark_deleted(self.filesystem, self.directory)

    def remove(self) -> None:
        """Remove the mark."""
        self.directories.remove_mark(self.filesystem, self.directory)


@dataclass(slots=True)
class QueueLogsMark:
    """Marks all logs of a queue that could not be recovered at the start.

    The queue may have several: one for each incarnation.

    Attributes:
        directory: `logs/<vhost>/<queue>`; may be missing.
        directories: Creator of log directories; writes the marks.
        filesystem: File system that makes all file calls.
    """

    directory: Path
    directories: DurableDirectories
    filesystem: FileSystem
    _marked: list[Path] = field(default_factory=list)

    def set(self) -> None:
        """Mark every log that has no mark yet."""
        for log in logs_of_queue(self.directory, self.filesystem):
            if not log.is_deleted:
                self._marked.append(log.path)
                self.directories.mark_deleted(self.filesystem, log.path)

    def remove(self) -> None:
        """Remove the marks that `set` has written."""
        for path in self._marked:
            self.directories.remove_mark(self.filesystem, path)
