"""File operations that never wait for the disk, for data that need not survive a power cut."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from appendlog.files.filesystem import FileSystem

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class UnsyncedFileSystem(FileSystem):
    """Reports every sync as done without one. A sync of a missing file or directory still fails.

    What was written is there for every later open, because the machine itself goes on.
    """

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write buffers at `position`; return the number of bytes written."""
        return super().pwritev(descriptor, buffers, position, False)

    def fsync(self, descriptor: int) -> None:
        """Check that the file is open."""
        os.fstat(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        """Check that the file is open."""
        os.fstat(descriptor)

    def syncs_as_a_whole(self, path: Path) -> bool:
        """Return True: no sync does anything."""
        return True

    def sync_filesystem(self, path: Path) -> None:
        """Check that the directory exists."""
        path.stat()

    def sync_directory(self, path: Path) -> None:
        """Check that the directory exists."""
        path.stat()
