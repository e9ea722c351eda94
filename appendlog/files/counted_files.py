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


@dataclass(frozen=True, slots=True)
class FileCounters:
    """Counts of file operations since the process began.

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

    A thread waits for another one only while that adds its numbers, never during an operation.
    """

    writes_natively = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_bytes = self._read_count = self._write_bytes = self._write_count = 0
        self._read_seconds = self._write_seconds = self._sync_seconds = 0.0
        self._sync_count = 0
        self._sync_buckets = [0] * (len(BOUNDS_SECONDS) + 1)

    def counters(self) -> FileCounters:
        """Return what all threads have done; any thread may ask."""
        with self._lock:
            return FileCounters(
                read_count=self._read_count,
                read_bytes=self._read_bytes,
                read_seconds=self._read_seconds,
                write_count=self._write_count,
                write_bytes=self._write_bytes,
                write_seconds=self._write_seconds,
                sync_count=self._sync_count,
                sync_seconds=self._sync_seconds,
                sync_buckets=tuple(self._sync_buckets),
            )

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
        self.note_pwrite(written, perf_counter() - began_seconds)
        return written

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write buffers at `position`, durably with `sync`; return the number of bytes written."""
        began_seconds = perf_counter()
        written = super().pwritev(descriptor, buffers, position, sync)
        seconds = perf_counter() - began_seconds
        if sync:
            self.note_pwritev(written, seconds)
        else:
            self.note_pwrite(written, seconds)
        return written

    def note_pwrite(self, written: int, seconds: float) -> None:
        """Count a write that a kernel has made, or one of ours."""
        if written >= 0:
            with self._lock:
                self._write_count += 1
                self._write_bytes += written
                self._write_seconds += seconds

    def note_pwritev(self, written: int, seconds: float) -> None:
        """Count a write with its sync that a kernel has made, or one of ours."""
        if written >= 0:
            with self._lock:
                self._write_count += 1
                self._write_bytes += written
                self._sync_count += 1
                self._sync_seconds += seconds
                self._sync_buckets[bisect_left(BOUNDS_SECONDS, seconds)] += 1

    def fsync(self, descriptor: int) -> None:
        """Sync a file and all its attributes to the disk."""
        began_seconds = perf_counter()
        super().fsync(descriptor)
        self._note_sync(perf_counter() - began_seconds)

    def fdatasync(self, descriptor: int) -> None:
        """Sync a file's data, and the attributes needed to read it, to the disk."""
        began_seconds = perf_counter()
        super().fdatasync(descriptor)
        self._note_sync(perf_counter() - began_seconds)

    def sync_directory(self, path: Path) -> None:
        """Sync a directory's entries: new, renamed and removed names."""
        began_seconds = perf_counter()
        super().sync_directory(path)
        self._note_sync(perf_counter() - began_seconds)

    def sync_filesystem(self, path: Path) -> None:
        """Sync everything on the file system of a directory to the disk, in one call."""
        began_seconds = perf_counter()
        super().sync_filesystem(path)
        self._note_sync(perf_counter() - began_seconds)

    def _note_read(self, count: int, began_seconds: float) -> None:
        seconds = perf_counter() - began_seconds
        with self._lock:
            self._read_count += 1
            self._read_bytes += count
            self._read_seconds += seconds

    def _note_sync(self, seconds: float) -> None:
        with self._lock:
            self._sync_count += 1
            self._sync_seconds += seconds
            self._sync_buckets[bisect_left(BOUNDS_SECONDS, seconds)] += 1
