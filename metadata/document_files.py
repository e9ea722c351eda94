"""The file operations of the metadata store.

They block and run in worker threads (`file_workers`). They use `FileSystem`, as all packages do, so
that tests can make any operation fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from appendlog.files.bulk_reads import read_files
from appendlog.files.filesystem import FileSystem, Room
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

    def read(self, path: Path, bytes_max: int = DOCUMENT_BYTES_MAX) -> bytes:
        """Return a file's content, cut to one byte more than `bytes_max`."""
        return self._filesystem.read_file(path, bytes_max + 1)

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return the contents of small files; None for one that `read` has to read.

        Args:
            paths: At most `PATHS_AT_ONCE`.
        """
        return read_files(self._filesystem, paths)

    def exists(self, path: Path) -> bool:
        """Return whether there is a file."""
        return self._filesystem.exists(path)

    def room(self, path: Path) -> Room:
        """Return the room on the disk of a file or directory."""
        return self._filesystem.room(path)

    def write(self, path: Path, content: bytes) -> None:
        """Create or overwrite a file; return when its content is on the disk."""
        self._filesystem.write_file(path, content)

    def append(self, path: Path, content: bytes, position: int) -> None:
        """Write behind the first `position` bytes of a file; return when that is on the disk."""
        descriptor = self._filesystem.open(path, os.O_WRONLY)
        try:
            self._filesystem.write_all(descriptor, [content], position, sync=False)
            self._filesystem.fsync(descriptor)
        finally:
            self._filesystem.close(descriptor)

    def write_pieces(self, path: Path, pieces: Callable[[], Iterable[bytes]]) -> None:
        """Create or overwrite a large file; return when its content is on the disk.

        Args:
            path: Path of the file.
            pieces: Returns its content in pieces; may be called twice.
        """
        descriptor = self._filesystem.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            end = 0
            for piece in pieces():
                end = self._filesystem.write_all(descriptor, [piece], end, sync=False)
            self._filesystem.fsync(descriptor)
        finally:
            self._filesystem.close(descriptor)

    def write_unsynced(self, path: Path, content: bytes) -> None:
        """Create or overwrite a file; durable after `sync_all`."""
        descriptor = self._filesystem.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self._filesystem.write_all(descriptor, [content], 0, sync=False)
        finally:
            self._filesystem.close(descriptor)

    def sync_all(self, root: Path, paths: Collection[Path]) -> None:
        """Return when some files, and all directories above them, are on the disk.

        Args:
            root: Directory that is above all of them, and on the disk itself.
            paths: The files.
        """
        if self._filesystem.syncs_as_a_whole(root):
            self._filesystem.sync_filesystem(root)
            return
        for path in paths:
            self._filesystem.sync_file(path)
        above = {each for path in paths for each in path.parents if each.is_relative_to(root)}
        for directory in sorted(above, reverse=True):
            self._filesystem.sync_directory(directory)

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
