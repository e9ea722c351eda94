"""File operations that count themselves: how often, how many bytes, and how long a sync takes.

They also say which of them have begun and not returned: on a disk that hangs none does.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import get_ident
from time import perf_counter
from typing import Final, TypeAlias

from appendlog.files.filesystem import DIRECTORY_MODE, FILE_MODE, FileSystem, ResultT, Room
from appendlog.files.mapped_file import MappedFile
from appendlog.files.operation import Operation

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


_UnderWay: TypeAlias = dict[int, tuple[float, str, Path | int]]


class _Watched:
    """Operation that is listed as under way: `with files._watched(...)`.

    A class, because a start makes hundreds of thousands; `contextmanager` takes four times as long.
    """

    __slots__ = ("_name", "_outer", "_thread", "_under_way", "_where")

    def __init__(self, under_way: _UnderWay, name: str, where: Path | int) -> None:
        self._under_way = under_way
        self._name = name
        self._where = where

    def __enter__(self) -> None:
        under_way = self._under_way
        self._thread = thread = get_ident()
        # An open may close other files first, and so may a collection of garbage at any time.
        self._outer = under_way.get(thread)
        under_way[thread] = perf_counter(), self._name, self._where

    def __exit__(self, *_: object) -> None:
        if self._outer is None:
            self._under_way.pop(self._thread, None)
        else:
            self._under_way[self._thread] = self._outer


class CountedFiles(FileSystem):
    """File operations that are counted. Thread-safe.

    A thread waits for another one only while that adds its numbers, never during an operation.
    """

    writes_natively = True
    reads_natively = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_bytes = self._read_count = self._write_bytes = self._write_count = 0
        self._read_seconds = self._write_seconds = self._sync_seconds = 0.0
        self._sync_count = 0
        self._sync_buckets = [0] * (len(BOUNDS_SECONDS) + 1)
        # By thread: when it has begun its operation, the name of that, and the file.
        self._under_way: _UnderWay = {}

    def under_way(self) -> list[Operation]:
        """Return the operations that have begun and not returned; any thread may ask.

        Left out is what a kernel writes: see `writes_natively`.
        """
        return [
            Operation((thread, began_seconds), name, where)
            for thread, (began_seconds, name, where) in self._under_way.copy().items()
        ]

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

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Open a file, closed in child processes; do not wait for the other end of a pipe."""
        with self._watched("open", path):
            return super().open(path, flags, mode)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read at most `size` bytes at `position`."""
        began_seconds = perf_counter()
        self._under_way[get_ident()] = began_seconds, "pread", descriptor
        try:
            data = super().pread(descriptor, size, position)
        finally:
            self._under_way.pop(get_ident(), None)
        self._note_read(len(data), began_seconds)
        return data

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Read at `position` into a buffer; return the number of bytes, 0 at the end."""
        began_seconds = perf_counter()
        self._under_way[get_ident()] = began_seconds, "preadv", descriptor
        try:
            count = super().read_into(descriptor, buffer, position)
        finally:
            self._under_way.pop(get_ident(), None)
        self._note_read(count, began_seconds)
        return count

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        """Write at `position`; return the number of bytes written."""
        began_seconds = perf_counter()
        self._under_way[get_ident()] = began_seconds, "pwrite", descriptor
        try:
            written = super().pwrite(descriptor, data, position)
        finally:
            self._under_way.pop(get_ident(), None)
        self.note_pwrite(written, perf_counter() - began_seconds)
        return written

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write buffers at `position`, durably with `sync`; return the number of bytes written."""
        began_seconds = perf_counter()
        self._under_way[get_ident()] = began_seconds, "pwritev", descriptor
        try:
            written = super().pwritev(descriptor, buffers, position, sync)
        finally:
            self._under_way.pop(get_ident(), None)
        seconds = perf_counter() - began_seconds
        if sync:
            self.note_pwritev(written, seconds)
        else:
            self.note_pwrite(written, seconds)
        return written

    def run_natively(self, name: str, path: str, operation: Callable[[], ResultT]) -> ResultT:
        """Run a kernel that makes operations on some files, and return its result."""
        with self._watched(name, Path(path)):
            return operation()

    def note_reads(self, count: int, octets: int, seconds: float) -> None:
        """Count what a kernel has read."""
        with self._lock:
            self._read_count += count
            self._read_bytes += octets
            self._read_seconds += seconds

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
        with self._watched("fsync", descriptor):
            super().fsync(descriptor)
        self._note_sync(perf_counter() - began_seconds)

    def fdatasync(self, descriptor: int) -> None:
        """Sync a file's data, and the attributes needed to read it, to the disk."""
        began_seconds = perf_counter()
        with self._watched("fdatasync", descriptor):
            super().fdatasync(descriptor)
        self._note_sync(perf_counter() - began_seconds)

    def sync_directory(self, path: Path) -> None:
        """Sync a directory's entries: new, renamed and removed names."""
        began_seconds = perf_counter()
        with self._watched("fsync", path):
            super().sync_directory(path)
        self._note_sync(perf_counter() - began_seconds)

    def syncs_as_a_whole(self, path: Path) -> bool:
        """Return whether everything is on the disk after a `sync_filesystem`."""
        with self._watched("stat", path):
            return super().syncs_as_a_whole(path)

    def sync_filesystem(self, path: Path) -> None:
        """Sync everything on the file system of a directory to the disk, in one call."""
        began_seconds = perf_counter()
        with self._watched("syncfs", path):
            super().sync_filesystem(path)
        self._note_sync(perf_counter() - began_seconds)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        with self._watched("close", descriptor):
            super().close(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut or extend a file."""
        with self._watched("ftruncate", descriptor):
            super().truncate(descriptor, size)

    def size(self, descriptor: int) -> int:
        """Return the size of an open file in bytes."""
        with self._watched("fstat", descriptor):
            return super().size(descriptor)

    def device(self, path: Path) -> int:
        """Return the number of the file system of a file or directory."""
        with self._watched("stat", path):
            return super().device(path)

    def file_size(self, path: Path) -> int:
        """Return the size of a file in bytes."""
        with self._watched("stat", path):
            return super().file_size(path)

    def map(self, descriptor: int, size: int, position: int = 0) -> MappedFile:
        """Map `size` bytes of a file for reading; the descriptor may then be closed."""
        with self._watched("mmap", descriptor):
            return super().map(descriptor, size, position)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, atomically replacing `target`."""
        with self._watched("rename", target):
            super().rename(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        with self._watched("unlink", path):
            super().unlink(path)

    def mkdir(self, path: Path, mode: int = DIRECTORY_MODE) -> None:
        """Make one directory."""
        with self._watched("mkdir", path):
            super().mkdir(path, mode)

    def rmdir(self, path: Path) -> None:
        """Remove an empty directory."""
        with self._watched("rmdir", path):
            super().rmdir(path)

    def listdir(self, path: Path) -> list[str]:
        """Return the names in a directory."""
        with self._watched("getdents", path):
            return super().listdir(path)

    def scandir(self, path: Path) -> list[tuple[str, bool]]:
        """Return the names in a directory, and of each whether it is a directory."""
        with self._watched("getdents", path):
            return super().scandir(path)

    def exists(self, path: Path) -> bool:
        """Return whether a file or directory exists."""
        with self._watched("stat", path):
            return super().exists(path)

    def is_directory(self, path: Path) -> bool:
        """Return whether a directory exists; a symbolic link to one does not count."""
        with self._watched("lstat", path):
            return super().is_directory(path)

    def free_bytes(self, path: Path) -> int:
        """Return the free space for this user on the disk of a file or directory, in bytes."""
        with self._watched("statfs", path):
            return super().free_bytes(path)

    def room(self, path: Path) -> Room:
        """Return the room for this user on the disk of a file or directory."""
        with self._watched("statfs", path):
            return super().room(path)

    def _watched(self, name: str, where: Path | int) -> _Watched:
        return _Watched(self._under_way, name, where)

    def _note_read(self, octets: int, began_seconds: float) -> None:
        self.note_reads(1, octets, perf_counter() - began_seconds)

    def _note_sync(self, seconds: float) -> None:
        with self._lock:
            self._sync_count += 1
            self._sync_seconds += seconds
            self._sync_buckets[bisect_left(BOUNDS_SECONDS, seconds)] += 1
