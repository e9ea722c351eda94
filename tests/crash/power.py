"""A file system that a test can hold, break for one queue, or cut the power of."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Sequence
from pathlib import Path

from appendlog.files.filesystem import FILE_MODE
from tests.faults.faulty_filesystem import FaultyFileSystem


class Power(FaultyFileSystem):
    """The faulty file system, with a plug.

    Its `sync_gate` holds the syncs below one directory only: that of the logs, at first, so that
    checkpoints go on being written.

    Args:
        root: The data directory.

    Attributes:
        broken: Files with this in their path take no more bytes; nothing is broken at first.
        gated: The directory whose syncs pass the gate.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.broken: str | None = None
        self.gated = root / "logs"
        self._paths: dict[int, Path] = {}
        self._syncing = threading.local()

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Open, and remember which file it is."""
        descriptor = super().open(path, flags, mode)
        self._paths[descriptor] = path
        return descriptor

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write, unless the file is broken."""
        self._syncing.path = self._paths[descriptor]
        if self.broken is not None and self.broken in str(self._syncing.path):
            raise OSError(errno.EIO, "Input/output error")
        return super().pwritev(descriptor, buffers, position, sync)

    def fsync(self, descriptor: int) -> None:
        """Sync, when the gate of this file is open."""
        self._syncing.path = self._paths[descriptor]
        super().fsync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        """Sync, when the gate of this file is open."""
        self._syncing.path = self._paths[descriptor]
        super().fdatasync(descriptor)

    def sync_directory(self, path: Path) -> None:
        """Sync, when the gate of this directory is open."""
        self._syncing.path = path
        super().sync_directory(path)

    def unplug(self) -> None:
        """Let nothing more reach the disk: neither what is under way nor what comes."""
        self.fail_at = 0
        self.sync_gate.set()

    def lose(self, keep: random.Random | None = None) -> None:
        """Put the files back to what the disk had; see `power_cut`."""
        self.power_cut(keep)

    def _pass_gate(self) -> None:
        if self.gated in (self._syncing.path, *self._syncing.path.parents):
            super()._pass_gate()
        if self.fail_at == 0:
            raise OSError(errno.EIO, "no power")


def powered(root: Path) -> Power:
    """Make a data directory, and return its file system."""
    root.mkdir()
    return Power(root)
