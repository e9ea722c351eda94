"""Keeps what is taken out of a data directory: nothing is removed without a copy.

The quarantine and the original may be on different file systems, because `logs` may be a mount or a
symbolic link to another disk. A copy is then durable before the original is removed.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from appendlog import DurableDirectories

if TYPE_CHECKING:
    from pathlib import Path

    from appendlog import FileSystem

QUARANTINE_NAME: Final = "quarantine"
PART_SUFFIX: Final = ".part"
"""Suffix of an incomplete copy; if a crash leaves one, the original is still in its place."""
_COPY_BYTES: Final = 1 << 20


class Quarantine:
    """A directory `quarantine/<time>` with what one repair took out, at the same relative paths.

    Args:
        storage_path: The data directory.
        filesystem: All file operations.

    Attributes:
        path: The directory; created when something is moved or copied into it.
        moved: Paths below it of what was moved or copied.
    """

    def __init__(self, storage_path: Path, filesystem: FileSystem) -> None:
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
            OSError: The move failed. All that is not here yet is still in its old place.
        """
        target = self._place_for(path)
        try:
            self._filesystem.rename(path, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._move_across(path, target)
        else:
            # Sync the target first: a power cut may leave the file twice, but never nowhere.
            self._filesystem.sync_directory(target.parent)
            self._filesystem.sync_directory(path.parent)
        self.moved.append(target)
        return target

    def copy(self, path: Path) -> Path:
        """Copy a file of the data directory here; durable when this returns.

        Raises:
            OSError: The copy failed. The file is unchanged, and nothing of it is here.
        """
        target = self._place_for(path)
        self._copy_file(path, target)
        self._filesystem.sync_directory(target.parent)
        self.moved.append(target)
        return target

    def _place_for(self, path: Path) -> Path:
        target = place = self.path / path.relative_to(self._storage_path)
        self._directories.make(self._filesystem, target.parent)
        self._directories.sync(self._filesystem, target.parent)
        number = 0
        while self._filesystem.exists(target):
            # A later pass may take a new file from a path whose old file is here already.
            number += 1
            target = place.with_name(f"{place.name}.{number}")
        return target

    def _move_across(self, path: Path, target: Path) -> None:
        """Move to another file system: make the whole copy durable, then remove the original."""
        try:
            self._copy(path, target)
            self._filesystem.sync_directory(target.parent)
        except OSError:
            # Do not leave half a copy on a full disk.
            if _is_directory(target):
                with suppress(OSError):
                    self._filesystem.remove_tree(target)
            raise
        if _is_directory(path):
            self._filesystem.remove_tree(path)
        else:
            self._filesystem.unlink(path)
        self._filesystem.sync_directory(path.parent)

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif _is_directory(source):
            self._filesystem.mkdir(target)
            for name in sorted(self._filesystem.listdir(source)):
                self._copy(source / name, target / name)
            self._filesystem.sync_directory(target)
        elif source.is_file():
            self._copy_file(source, target)
        # Other files, such as pipes and sockets, contain no bytes.

    def _copy_file(self, source: Path, target: Path) -> None:
        """Copy a file; the copy gets its name when all of it is on the disk."""
        filesystem = self._filesystem
        part = target.with_name(f"{target.name}{PART_SUFFIX}")
        reading = filesystem.open(source, os.O_RDONLY)
        try:
            writing = filesystem.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                position = 0
                while data := filesystem.pread(reading, _COPY_BYTES, position):
                    position = filesystem.write_all(writing, [data], position, sync=False)
                filesystem.fsync(writing)
            finally:
                filesystem.close(writing)
            filesystem.rename(part, target)
        except OSError:
            with suppress(OSError):
                filesystem.unlink(part)
            raise
        finally:
            filesystem.close(reading)


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
