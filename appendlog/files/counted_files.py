"""File operations that count themselves: how often, how many bytes, and how long a sync takes."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

from appendlog.files.filesystem import FileSystem

BOUNDS_SECONDS: Final = (
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
    5.0,
)
"""Upper bounds of the histogram of syncs; longer ones are in one more bucket."""


class _Counts:
    """What one thread has done."""

    __slots__ = (
        "read_bytes",
        "read_count",
        "read_seconds",
        "sync_buckets",
        "sync_count",
        "sync_seconds",
        "write_bytes",
        "write_count",
        "write_seconds",
    )

    def __init__(self) -> None:
        self.read_bytes = self.read_count = self.write_bytes = self.write_count = 0
        self.read_seconds = self.write_seconds = self.sync_seconds = 0.0
        self.sync_count = 0
        self.sync_buckets = [0] * (len(BOUNDS_SECONDS) + 1)

    def note_sync(self, seconds: float) -> None:
        """Count a sync."""
        self.sync_count += 1
        self.sync_seconds += seconds
        self.sync_buckets[bisect_left(BOUNDS_SECONDS, seconds)] += 1


@dataclass(frozen=True, slots=True)
class FileCounters:
    """What was done with files since the process began.

    Attributes:
        read_count: Reads; parts of files that are mapped into memory do not count.
        read_bytes: Bytes that they returned.
        read_seconds: Time that they took.
        write_count: Writes, also those that include their sync.
        write_bytes: Bytes that they wrote.
        write_seconds: Time that those took that include no sync.
        sync_count: Syncs, and writes that include theirs.
        sync_seconds: Time that these took.
        sync_buckets: Syncs by duration: one count for each of `BOUNDS_SECONDS`, and one above.
    """

    read_count: int
    read_bytes: int
    read_seconds: float
    write_count: int
    write_bytes: int
    write_seconds: float
    sync_count: int
    sync_seconds: float
    sync_buckets: tuple[int, ...]


class CountedFiles(FileSystem):
    """File operations that are counted. Thread-safe.

    Each thread has counters of its own: none waits for another, and none is lost.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[_Counts] = []

    def counters(self) -> FileCounters:
        """Return what all threads have done; any thread may ask."""
        every = tuple(self._all)
        return FileCounters(
            read_count=sum(each.read_count for each in every),
            read_bytes=sum(each.read_bytes for each in every),
            read_seconds=sum(each.read_seconds for each in every),
            write_count=sum(each.write_count for each in every),
            write_bytes=sum(each.write_bytes for each in every),
            write_seconds=sum(each.write_seconds for each in every),
            sync_count=sum(each.sync_count for each in every),
            sync_seconds=sum(each.sync_seconds for each in every),
            sync_buckets=tuple(
                sum(each.sync_buckets[at] for each in every)
                for at in range(len(BOUNDS_SECONDS) + 1)
            ),
        )

    @property
    def _counts(self) -> _Counts:
        counts: _Counts | None = getattr(self._own, "counts", None)
        if counts is None:
            counts = self._own.counts = _Counts()
            # Threads of pools live as long as the process, so the list stays short.
            self._all.append(counts)
        return counts

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read at most `size` bytes at `position`."""
        began_seconds = perf_counter()
        data = super().pread(descriptor, size, position)
        self._note_read(len(data), began_seconds)
        return data

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Read at `position` into a buffer; return the number of bytes, 0 at the end."""
        began_seconds = perf_counter()
        count = super().read_into(descriptor, buffer, position)
        self._note_read(count, began_seconds)
        return count

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        """Write at `position`; return the number of bytes written."""
        began_seconds = perf_counter()
        written = super().pwrite(descriptor, data, position)
        counts = self._counts
        counts.write_count += 1
        counts.write_bytes += written
        counts.write_seconds += perf_counter() - began_seconds
        return written

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write buffers at `position`, durably with `sync`; return the number of bytes written."""
        began_seconds = perf_counter()
        written = super().pwritev(descriptor, buffers, position, sync)
        seconds = perf_counter() - began_seconds
        counts = self._counts
        counts.write_count += 1
        counts.write_bytes += written
        if sync:
            counts.note_sync(seconds)
        else:
            counts.write_seconds += seconds
        return written

    def fsync(self, descriptor: int) -> None:
        """Sync a file and all its attributes to the disk."""
        began_seconds = perf_counter()
        super().fsync(descriptor)
        self._counts.note_sync(perf_counter() - began_seconds)

    def fdatasync(self, descriptor: int) -> None:
        """Sync a file's data, and the attributes needed to read it, to the disk."""
        began_seconds = perf_counter()
        super().fdatasync(descriptor)
        self._counts.note_sync(perf_counter() - began_seconds)

    def sync_directory(self, path: Path) -> None:
        """Sync a directory's entries: new, renamed and removed names."""
        began_seconds = perf_counter()
        super().sync_directory(path)
        self._counts.note_sync(perf_counter() - began_seconds)

    def sync_filesystem(self, path: Path) -> None:
        """Sync everything on the file system of a directory to the disk, in one call."""
        began_seconds = perf_counter()
        super().sync_filesystem(path)
        self._counts.note_sync(perf_counter() - began_seconds)

    def _note_read(self, count: int, began_seconds: float) -> None:
        counts = self._counts
        counts.read_count += 1
        counts.read_bytes += count
        counts.read_seconds += perf_counter() - began_seconds
