"""The file operations of the metadata store.

They block and run in worker threads (`file_workers`). They use `FileSystem`, as all packages do, so
that tests can make any operation fail.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from appendlog.files.filesystem import FileSystem
from metadata.document import DOCUMENT_BYTES_MAX


class DocumentFiles:
    """Reads, replaces and removes small files; every method may raise OSError.

    Several threads may call methods at once.

    Args:
        filesystem: File operations; by default the operating system's.
    """

    def __init__(self, filesystem: FileSystem | None = None) -> None:
        self._filesystem = FileSystem() if filesystem is None else filesystem

    def list_names(self, directory: Path) -> list[str]:
        """Return the names in a directory, sorted."""
        return sorted(self._filesystem.listdir(directory))

    def read(self, path: Path) -> bytes:
        """Return a file's content, cut to one byte more than the longest document."""
        return self._filesystem.read_file(path, DOCUMENT_BYTES_MAX + 1)

    def write(self, path: Path, content: bytes) -> None:
        """Create or overwrite a file; return when its content is on the disk."""
        self._filesystem.write_file(path, content)

    def rename(self, source: Path, target: Path) -> None:
        """Replace `target` by `source` atomically; durable after `sync_directory`."""
        self._filesystem.rename(source, target)

    def remove(self, path: Path) -> None:
        """Unlink a file if it exists; durable after `sync_directory`."""
        with suppress(FileNotFoundError):
            self._filesystem.unlink(path)

    def make_directory(self, path: Path) -> None:
        """Create one directory if it is missing; durable after its parent is synced."""
        with suppress(FileExistsError):
            self._filesystem.mkdir(path)

    def remove_directory(self, path: Path) -> None:
        """Remove a directory with its files if it exists; durable after its parent is synced."""
        try:
            for name in self._filesystem.listdir(path):
                # Another thread may be removing the same directory.
                self.remove(path / name)
            self._filesystem.rmdir(path)
        except FileNotFoundError:
            return

    def with_room(self, write: Callable[[], None]) -> None:
        """Run a write that belongs to a document but is not one itself; `write` may run twice."""
        write()

    def sync_directory(self, path: Path) -> None:
        """Return when the directory's entries are on the disk."""
        self._filesystem.sync_directory(path)
