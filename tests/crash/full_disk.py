"""A disk that is full until a test frees it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from appendlog.files.filesystem import DIRECTORY_MODE, FILE_MODE
from tests.faults.faulty_filesystem import FaultyFileSystem


class FullDisk(FaultyFileSystem):
    """Takes nothing new while it is full; removing and reading go on.

    Args:
        root: The data directory.

    Attributes:
        full: What is full: files with this in their path; None is nothing, "" everything.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.full: str | None = None
        self._paths: dict[int, Path] = {}

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Open; a new file needs room."""
        if flags & os.O_CREAT and not path.exists():
            self._need_room(path)
        descriptor = super().open(path, flags, mode)
        self._paths[descriptor] = path
        return descriptor

    def mkdir(self, path: Path, mode: int = DIRECTORY_MODE) -> None:
        """Make a directory, if there is room."""
        self._need_room(path)
        super().mkdir(path, mode)

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        """Write, if there is room."""
        self._need_room(self._paths[descriptor])
        return super().pwrite(descriptor, data, position)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write as much as there is room for: half of it, and then nothing."""
        path = self._paths[descriptor]
        if self.full is not None and self.full in str(path):
            data = b"".join(buffers)
            if len(data) > 1:
                return super().pwritev(descriptor, [data[: len(data) // 2]], position, False)
        self._need_room(path)
        return super().pwritev(descriptor, buffers, position, sync)

    def _need_room(self, path: Path) -> None:
        if self.full is not None and self.full in str(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
