"""File system through which logs in an object store are read.

It is read-only, for copies of data directories: backups and archives. Each read requests exactly
its bytes. A call that is cheap on a disk is a request here, so nothing is read ahead or twice.
"""

import errno
import itertools
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final

from appendlog.files.filesystem import DIRECTORY_MODE, FILE_MODE, FileSystem
from appendlog.files.mapped_file import MappedFile
from appendlog.spark.objects.client import ObjectClient, ObjectFile
from appendlog.spark.objects.connection import connect
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.store_options import NO_OPTIONS, StoreOptions

LOCAL_FILES: Final = FileSystem()
_FILESYSTEMS_MAX: Final = 64
_COPY_BYTES: Final = 4 << 20


def filesystem_of(path: Path, options: StoreOptions = NO_OPTIONS) -> FileSystem:
    """Return the file system that a path is in; see `Location` for paths in stores.

    Each process has one object for each bucket and options.

    Raises:
        StoreError: The store cannot be used with these options.
    """
    location = Location.of(path)
    if location is None:
        return LOCAL_FILES
    return _object_filesystem(location.scheme, location.bucket, options, os.getpid())


@lru_cache(_FILESYSTEMS_MAX)
def _object_filesystem(
    scheme: str, bucket: str, options: StoreOptions, _process: int
) -> "ObjectFileSystem":
    return ObjectFileSystem(connect(Location(scheme, bucket), options))


class ObjectFileSystem(FileSystem):
    """Reads objects as if they were files. Thread-safe; descriptors are numbers of its own.

    Refuses every change with EROFS.

    Args:
        client: Client of the store.

    Attributes:
        request_count: Number of requests to the store.
        read_bytes: Bytes of objects that were read.
    """

    has_dsync = False

    def __init__(self, client: ObjectClient) -> None:
        self._client = client
        self._lock = Lock()
        self._open: dict[int, ObjectFile] = {}
        self._numbers = itertools.count(1)
        self.request_count = 0
        self.read_bytes = 0

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Open an object for reads; asks the store for its size."""
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            raise _read_only(path)
        self.request_count += 1
        file = self._client.open(_key(path))
        with self._lock:
            descriptor = next(self._numbers)
            self._open[descriptor] = file
        return descriptor

    def close(self, descriptor: int) -> None:
        """Release an object."""
        with self._lock:
            file = self._open.pop(descriptor)
        file.close()

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read at most `size` bytes at `position`: one request, of exactly these."""
        data = self._open[descriptor].read_at(position, size)
        self.request_count += 1
        self.read_bytes += len(data)
        return data

    def read_into(self, descriptor: int, buffer: memoryview, position: int) -> int:
        """Read at `position` into a buffer; return the number of bytes, 0 at the end."""
        data = self.pread(descriptor, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def will_need(self, descriptor: int, position: int, size: int) -> None:
        """Do nothing: nothing is read ahead."""

    def size(self, descriptor: int) -> int:
        """Return the size of an open object in bytes; known since it was opened."""
        return self._open[descriptor].size_bytes

    def file_size(self, path: Path) -> int:
        """Return the size of an object in bytes."""
        descriptor = self.open(path, os.O_RDONLY)
        try:
            return self.size(descriptor)
        finally:
            self.close(descriptor)

    def map(self, descriptor: int, size: int, position: int = 0) -> MappedFile:
        """Fetch a part of an object into a file without a name, and map that file."""
        with tempfile.TemporaryFile() as copy:
            at = position
            while at < position + size:
                data = self.pread(descriptor, min(_COPY_BYTES, position + size - at), at)
                if not data:
                    raise ValueError(
                        f"{size} bytes at {position} asked for, the object ends at {at}"
                    )
                copy.write(data)
                at += len(data)
            copy.flush()
            return MappedFile.of(copy.fileno(), size)

    def listdir(self, path: Path) -> list[str]:
        """Return the names of objects and folders directly below a path."""
        self.request_count += 1
        return self._client.names(_key(path))

    def exists(self, path: Path) -> bool:
        """Return whether there is an object at the path, or one below it."""
        self.request_count += 1
        return self._client.exists(_key(path))

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        """Refuse."""
        raise _read_only(None)

    def truncate(self, descriptor: int, size: int) -> None:
        """Refuse."""
        raise _read_only(None)

    def rename(self, source: Path, target: Path) -> None:
        """Refuse."""
        raise _read_only(source)

    def unlink(self, path: Path) -> None:
        """Refuse."""
        raise _read_only(path)

    def mkdir(self, path: Path, mode: int = DIRECTORY_MODE) -> None:
        """Refuse."""
        raise _read_only(path)

    def rmdir(self, path: Path) -> None:
        """Refuse."""
        raise _read_only(path)


def _key(path: Path) -> str:
    return "/".join(path.parts[1:])


def _read_only(path: Path | None) -> OSError:
    return OSError(errno.EROFS, "logs in an object store are only read", path and str(path))
