"""The mark that a deletion sets on the logs of a queue before it touches the definition."""

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
        directory: Directory of the log; may be missing, while nothing was written.
        directories: What makes it.
        filesystem: All file calls go through it.
    """

    directory: Path
    directories: DurableDirectories
    filesystem: FileSystem

    def set(self) -> None:
        """Put the mark on the disk; a log that has no directory yet is marked when it gets one."""
        self.directories.mark_deleted(self.filesystem, self.directory)

    def take_back(self) -> None:
        """Remove the mark."""
        self.directories.take_back_mark(self.filesystem, self.directory)


@dataclass(slots=True)
class QueueLogsMark:
    """Marks the logs of all lives of a queue that start-up could not bring back.

    Attributes:
        directory: `logs/<vhost>/<queue>`; may be missing.
        directories: What makes the logs in it.
        filesystem: All file calls go through it.
    """

    directory: Path
    directories: DurableDirectories
    filesystem: FileSystem
    _marked: list[Path] = field(default_factory=list)

    def set(self) -> None:
        """Put a mark on every log that has none."""
        for log in logs_of_queue(self.directory, self.filesystem):
            if not log.is_deleted:
                self._marked.append(log.path)
                self.directories.mark_deleted(self.filesystem, log.path)

    def take_back(self) -> None:
        """Remove the marks that were set here."""
        for path in self._marked:
            self.directories.take_back_mark(self.filesystem, path)
