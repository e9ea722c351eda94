"""File system without changes: writes are kept in memory or a temporary file, not on the disk.

The same recovery code can run on it, and the directory stays unchanged, including its times. Files
are opened only for reading, so even an operation that this class does not know cannot write.
"""

import errno
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from appendlog.files.filesystem import DIRECTORY_MODE, FILE_MODE, FileSystem

_WRITABLE: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_EXCL | os.O_APPEND
_ALL: Final = 1 << 62
SPOOL_BYTES_MAX: Final = 1 << 20
"""Maximum size of one file's writes in memory; larger ones go to a temporary file."""


class _File:
    """File as it would be.

    Attributes:
        is_new: Whether there is no such file on the disk.
        size: Size in bytes; None while it is that of the file on the disk.
    """

    __slots__ = ("_base_bytes", "_extents", "_spool", "is_new", "size")

    def __init__(self, *, is_new: bool) -> None:
        self.is_new = is_new
        self.size: int | None = 0 if is_new else None
        self._base_bytes = 0 if is_new else _ALL
        self._extents: list[tuple[int, int, int]] = []
        self._spool: tempfile.SpooledTemporaryFile[bytes] | None = None

    @property
    def is_changed(self) -> bool:
        return self.size is not None

    @property
    def is_written(self) -> bool:
        return self._spool is not None

    def read(self, base: bytes, position: int, size: int) -> bytes:
        """Return the bytes at `position`, given those on the disk."""
        assert self.size is not None
        data = bytearray(max(min(size, self.size - position), 0))
        base = base[: max(min(len(data), self._base_bytes - position), 0)]
        data[: len(base)] = base
        for start, end, spooled in self._extents:
            low, high = max(start, position), min(end, position + len(data))
            if low < high:
                assert self._spool is not None
                self._spool.seek(spooled + low - start)
                data[low - position : high - position] = self._spool.read(high - low)
        return bytes(data)

    def write(self, data: bytes | memoryview, position: int, size: int) -> None:
        """Record a write; `size` is the size of the file before it."""
        if self._spool is None:
            self._spool = tempfile.SpooledTemporaryFile(SPOOL_BYTES_MAX)  # noqa: SIM115
        at = self._spool.seek(0, os.SEEK_END)
        self._spool.write(data)
        end = position + len(data)
        if self._extents and self._extents[-1][1] == position:
            start, _, spooled = self._extents[-1]
            # Behind a cut it goes on in the file, but not in the spool.
            if spooled + position - start == at:
                position, at = start, spooled
                self._extents.pop()
        self._extents.append((position, end, at))
        self.size = max(size, end)

    def discard(self) -> None:
        """Discard the writes."""
        if self._spool is not None:
            self._spool.close()
        self._extents.clear()

    def truncate(self, size: int) -> None:
        """Cut or extend the file; bytes that were cut do not return."""
        self._extents = [
            (start, min(end, size), spooled)
            for start, end, spooled in self._extents
            if start < size
        ]
        self._base_bytes = min(self._base_bytes, size)
        self.size = size


class DryRunFileSystem(FileSystem):
    """Files of the operating system, opened only for reading; only this object sees its writes.

    Thread-safe. Memory and temporary space grow with the writes; leaving the context manager frees
    both and discards the writes.
    """

    has_dsync = True

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._files: dict[Path, _File] = {}
        self._open: dict[int, _File] = {}
        self._made: set[Path] = set()
        self._added: defaultdict[Path, set[str]] = defaultdict(set)
        self._removed: defaultdict[Path, set[str]] = defaultdict(set)
        self._written: list[_File] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            for file in self._written:
                file.discard()

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Open a file for reading, whatever the flags say; only record the creation of a file."""
        with self._lock:
            is_there = self.exists(path)
            if is_there and flags & os.O_CREAT and flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            if not is_there:
                if not flags & os.O_CREAT or not self.exists(path.parent):
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
                self._add(path, _File(is_new=True))
            file = self._files.setdefault(path, _File(is_new=False))
            target = Path(os.devnull) if file.is_new else path
            descriptor = super().open(target, flags & ~_WRITABLE, mode)
            if flags & os.O_TRUNC:
                file.truncate(0)
            self._open[descriptor] = file
            return descriptor

    def close(self, descriptor: int) -> None:
        """Close a descriptor; its writes stay."""
        with self._lock:
            self._open.pop(descriptor, None)
            super().close(descriptor)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read the bytes that would be there."""
        with self._lock:
            file = self._open[descriptor]
            if not file.is_changed:
                return super().pread(descriptor, size, position)
            base = b"" if file.is_new else super().pread(descriptor, size, position)
            return file.read(base, position, size)

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        """Record a write."""
        with self._lock:
            file = self._open[descriptor]
            if not file.is_written:
                self._written.append(file)
            file.write(data, position, self.size(descriptor))
        return len(data)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Record a write."""
        return self.pwrite(descriptor, b"".join(buffers), position)

    def fsync(self, descriptor: int) -> None:
        """Do nothing: there is nothing to put on the disk."""

    def fdatasync(self, descriptor: int) -> None:
        """Do nothing."""

    def truncate(self, descriptor: int, size: int) -> None:
        """Record a size."""
        with self._lock:
            self._open[descriptor].truncate(size)

    def size(self, descriptor: int) -> int:
        """Return the size that the file would have."""
        with self._lock:
            size = self._open[descriptor].size
            return super().size(descriptor) if size is None else size

    def file_size(self, path: Path) -> int:
        """Return the size that the file would have."""
        with self._lock:
            if not self.exists(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            file = self._files.get(path)
            size = file.size if file is not None else None
            return super().file_size(path) if size is None else size

    def rename(self, source: Path, target: Path) -> None:
        """Record a new name of a file."""
        with self._lock:
            if not self.exists(source):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
            file = self._files.get(source)
            if file is None or not file.is_new:
                # A read under the new name finds an empty file. Recovery only renames files away.
                file = _File(is_new=True)
            self.unlink(source)
            self._add(target, file)

    def unlink(self, path: Path) -> None:
        """Record the removal of a file."""
        self._remove(path)

    def mkdir(self, path: Path, mode: int = DIRECTORY_MODE) -> None:
        """Record a new directory."""
        with self._lock:
            if self.exists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            self._made.add(path)
            self._added[path.parent].add(path.name)

    def rmdir(self, path: Path) -> None:
        """Record the removal of a directory."""
        if self.listdir(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        self._remove(path)

    def listdir(self, path: Path) -> list[str]:
        """Return the names that would exist."""
        with self._lock:
            if not self.exists(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            names = set() if path in self._made else set(super().listdir(path))
            return sorted((names - self._removed[path]) | self._added[path])

    def scandir(self, path: Path) -> list[tuple[str, bool]]:
        """Return the names that would exist, and whether they would be directories."""
        return [(name, self.is_directory(path / name)) for name in self.listdir(path)]

    def exists(self, path: Path) -> bool:
        """Return whether a file or directory would exist."""
        with self._lock:
            if path.name in self._added[path.parent]:
                return True
            return path.name not in self._removed[path.parent] and super().exists(path)

    def is_directory(self, path: Path) -> bool:
        """Return whether a directory would exist."""
        with self._lock:
            if path in self._made:
                return True
            return self.exists(path) and path not in self._files and super().is_directory(path)

    def sync_directory(self, path: Path) -> None:
        """Do nothing."""

    def device(self, path: Path) -> int:
        """Return one number for all: a directory may be there in memory alone."""
        return 0

    def syncs_as_a_whole(self, path: Path) -> bool:
        """Return True."""
        return True

    def sync_filesystem(self, path: Path) -> None:
        """Do nothing."""

    def _add(self, path: Path, file: _File) -> None:
        self._files[path] = file
        self._added[path.parent].add(path.name)

    def _remove(self, path: Path) -> None:
        with self._lock:
            if not self.exists(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            self._files.pop(path, None)
            self._made.discard(path)
            self._added[path.parent].discard(path.name)
            self._removed[path.parent].add(path.name)
