"""A disk with room for a number of bytes; removing files frees theirs."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from amqp_server.upkeep.alarms import Reading
from appendlog.files.filesystem import FileSystem


class BudgetDisk(FileSystem):
    """Real files below one directory, which together have at most so many bytes.

    Directories and names cost nothing. It is also the sensor of a server that looks at it.

    Args:
        root: The data directory.

    Attributes:
        size_bytes: Of the disk.
        is_seen: Whether the sensor sees anything.
    """

    def __init__(self, root: Path, size_bytes: int) -> None:
        self.root = root
        self.size_bytes = size_bytes
        self.is_seen = True
        self._changing = threading.RLock()

    @property
    def free(self) -> int:
        """Bytes that can still be written; none if it has become smaller than what is on it."""
        with self._changing:
            used = sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())
        return max(self.size_bytes - used, 0)

    def fill(self) -> None:
        """Let others take all the room that is left."""
        with self._changing:
            self.size_bytes -= self.free

    def read(self) -> Reading:
        """Return how much room there is, as the sensor of a server."""
        if not self.is_seen:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return Reading(0, self.free)

    def free_bytes(self, path: Path) -> int:
        """Return how much room there is."""
        return self.free

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        """Write as much as there is room for."""
        return self.pwritev(descriptor, [data], position, False)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write as much as there is room for; fail if that is nothing."""
        with self._changing:
            data = b"".join(buffers)
            room = max(self.size(descriptor) - position, 0) + self.free
            if data and not room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().pwritev(descriptor, [data[:room]], position, sync)

    def unlink(self, path: Path) -> None:
        """Remove a file, but not while the used bytes are counted."""
        with self._changing:
            super().unlink(path)

    def rename(self, source: Path, target: Path) -> None:
        """Rename, but not while the used bytes are counted."""
        with self._changing:
            super().rename(source, target)
