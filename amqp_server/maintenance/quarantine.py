"""Where things go that are taken out of a data directory: nothing is removed without a copy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from appendlog import DurableDirectories

if TYPE_CHECKING:
    from pathlib import Path

    from appendlog import FileSystem

QUARANTINE_NAME: Final = "quarantine"


class Quarantine:
    """One directory `quarantine/<time>` that keeps what one repair took out, at the same paths.

    Args:
        storage_path: The data directory.
        filesystem: All file calls go through it.

    Attributes:
        path: The directory; made when something is put into it.
        moved: What was put into it, as paths below it.
    """

    def __init__(self, storage_path: Path, filesystem: FileSystem) -> None:
        """Choose a name that is free."""
        self._storage_path = storage_path
        self._filesystem = filesystem
        self._directories = DurableDirectories(storage_path)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        number = 0
        self.path = storage_path / QUARANTINE_NAME / stamp
        while filesystem.exists(self.path):
            number += 1
            self.path = storage_path / QUARANTINE_NAME / f"{stamp}-{number}"
        self.moved: list[Path] = []

    def take(self, path: Path) -> Path:
        """Move a file or directory of the data directory here; durable when this returns.

        Raises:
            OSError: It is where it was, or here.
        """
        target = self.path / path.relative_to(self._storage_path)
        self._directories.make(self._filesystem, target.parent)
        self._directories.sync(self._filesystem, target.parent)
        self._filesystem.rename(path, target)
        # Here before it is not there: a power cut may leave it twice, never nowhere.
        self._filesystem.sync_directory(target.parent)
        self._filesystem.sync_directory(path.parent)
        self.moved.append(target)
        return target

    def keep_copy(self, path: Path) -> Path:
        """Copy a file of the data directory here; durable when this returns.

        Args:
            path: A file that fits in memory.

        Returns:
            The copy.

        Raises:
            OSError: The copy was not made.
        """
        target = self.path / path.relative_to(self._storage_path)
        self._directories.make(self._filesystem, target.parent)
        self._directories.sync(self._filesystem, target.parent)
        content = self._filesystem.read_file(path, self._filesystem.file_size(path))
        self._filesystem.write_file(target, content)
        self._filesystem.sync_directory(target.parent)
        return target
