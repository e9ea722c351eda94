"""File operations that fail on demand: the disk is full, or the process counts as killed."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from amqp_server.testing.unsynced_files import UnsyncedFileSystem
from appendlog.files.filesystem import DIRECTORY_MODE, FILE_MODE, FileSystem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class DiskSpace:
    """Room on the disk, shared by all file systems of one broker."""

    def __init__(self) -> None:
        self._full_count = 0

    @property
    def is_full(self) -> bool:
        """Whether whatever needs room fails with ENOSPC."""
        return self._full_count > 0

    def fill(self) -> None:
        """Leave no room until `free` is called as often."""
        self._full_count += 1

    def free(self) -> None:
        """End what `fill` has begun."""
        self._full_count -= 1


class FaultyFileSystem(FileSystem):
    """File operations of one run of a broker. Thread-safe.

    Args:
        space: Room on the disk.

    Attributes:
        is_killed: Whether nothing changes the files any more, as after `kill -9`.
    """

    def __init__(self, space: DiskSpace) -> None:
        self.is_killed = False
        self._space = space

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Open a file; a new one needs room."""
        if flags & os.O_TRUNC:
            self._check_alive()
        if flags & os.O_CREAT and not path.exists():
            self._check_room()
        return super().open(path, flags, mode)

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        """Write at `position`; return the number of bytes written."""
        self._check_room()
        return super().pwrite(descriptor, data, position)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write buffers at `position`; return the number of bytes written."""
        self._check_room()
        return super().pwritev(descriptor, buffers, position, sync)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file, or extend it, which needs room."""
        self._check_alive()
        if size > self.size(descriptor):
            self._check_room()
        super().truncate(descriptor, size)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, atomically replacing `target`."""
        self._check_alive()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        self._check_alive()
        super().unlink(path)

    def mkdir(self, path: Path, mode: int = DIRECTORY_MODE) -> None:
        """Make one directory."""
        self._check_room()
        super().mkdir(path, mode)

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        self._check_alive()
        super().rmdir(path)

    def free_bytes(self, path: Path) -> int:
        """Return the free space in bytes."""
        return 0 if self._space.is_full else super().free_bytes(path)

    def _check_alive(self) -> None:
        if self.is_killed:
            raise OSError(errno.EIO, "the broker was killed by its test")

    def _check_room(self) -> None:
        self._check_alive()
        if self._space.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class UnsyncedFaultyFileSystem(FaultyFileSystem, UnsyncedFileSystem):
    """The same without syncs."""
