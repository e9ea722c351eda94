"""A file system that never waits for the disk: for tests that only a modelled disk can cut short.

What was written is there for every later open, because the machine itself goes on.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from appendlog.files.filesystem import FileSystem


class UnsyncedFileSystem(FileSystem):
    """Takes every sync for done; one of what is not there still fails."""

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        return super().pwritev(descriptor, buffers, position, False)

    def fsync(self, descriptor: int) -> None:
        os.fstat(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        os.fstat(descriptor)

    def sync_directory(self, path: Path) -> None:
        path.stat()
