"""Stores an output in an object store; an object gets its name only when it is whole.

Files are written on this machine and uploaded when they are complete. So neither a killed process
nor a failed task leaves an object behind.
"""

import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import BinaryIO, Final

from appendlog.spark.exporting.layout import WORK_DIRECTORY
from appendlog.spark.exporting.stores.store import OutputStore, StoredFile
from appendlog.spark.objects.client import ObjectClient, ObjectFile
from appendlog.spark.objects.connection import connect
from appendlog.spark.objects.location import Location
from appendlog.spark.objects.store_options import S3_SCHEMES, StoreOptions

_CHECKED_MAX: Final = 64
_READ_BUFFER_BYTES: Final = 64 << 10
_DELTA_NAMES: Final = {
    "access_key": "aws_access_key_id",
    "secret_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "region": "aws_region",
    "endpoint": "aws_endpoint_url",
}


class ObjectStore(OutputStore):
    """Output in a folder of an object store; see `OutputStore`. Shows no secret.

    Args:
        location: Folder of the output.
        options: Options of the store; missing ones come from the environment of this process.
    """

    concurrency = 16

    def __init__(self, location: Location, options: StoreOptions) -> None:
        self.location: Final = location
        self.options: Final = options.with_environment(location.scheme)
        self.url = str(location)

    def read(self, path: str) -> bytes:
        """See `OutputStore.read`."""
        file = self._client.open(self._key(path))
        try:
            return file.read_at(0, file.size_bytes)
        finally:
            file.close()

    def create(self, path: str, data: bytes) -> None:
        """See `OutputStore.create`; the store itself checks that the name is free.

        Raises:
            StoreError: The store failed, or cannot check it.
        """
        _check_creates(self.location, self.options, os.getpid())
        self._client.create(self._key(path), data)

    def list(self, folder: str) -> list[StoredFile]:
        """See `OutputStore.list`."""
        key = self._key(folder) if folder else self.location.key
        skipped = len(self.location.key) + 1
        return [
            StoredFile(each.key[skipped:], each.size_bytes)
            for each in self._client.objects(key)
            if not each.key.endswith(f"/{ObjectClient.PROBE_NAME}")
        ]

    def move(self, source: str, target: str) -> None:
        """See `OutputStore.move`; copies inside the store, whole or not at all."""
        try:
            self._client.copy(self._key(source), self._key(target))
        except FileNotFoundError:
            if not self._client.exists(self._key(target)):
                raise
            return
        self._client.delete(self._key(source))

    def delete(self, path: str) -> None:
        """See `OutputStore.delete`."""
        self._client.delete(self._key(path))

    @contextmanager
    def open_new(self, path: str) -> Iterator[BinaryIO]:
        """See `OutputStore.open_new`; needs space for the file in TMPDIR of this machine."""
        with tempfile.TemporaryFile() as file:
            yield file
            file.seek(0)
            self._client.put(self._key(path), file)

    def open_read(self, path: str) -> BinaryIO:
        """See `OutputStore.open_read`."""
        return io.BufferedReader(_ReadFile(self._client.open(self._key(path))), _READ_BUFFER_BYTES)

    @contextmanager
    def locked(self, path: str) -> Iterator[bool]:
        """See `OutputStore.locked`; object stores have no locks.

        Raises:
            StoreError: The store cannot be written to, or cannot create an object only if it is
                absent. Checked here, before anything is written for a commit that would fail.
        """
        _check_creates(self.location, self.options, os.getpid())
        yield False

    @property
    def _client(self) -> ObjectClient:
        return connect(self.location, self.options)

    def _key(self, path: str) -> str:
        assert not {"", ".", ".."} & set(path.split("/")), path
        return f"{self.location.key}/{path}"


class _ReadFile(io.RawIOBase):
    """An object as a file for random reads, without a copy."""

    def __init__(self, file: ObjectFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}
        self._position = max(0, base[whence] + offset)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read_at(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@lru_cache(_CHECKED_MAX)
def _check_creates(location: Location, options: StoreOptions, _process: int) -> None:
    """Check once in each process that the store refuses to create an object twice."""
    connect(location, options).check_creates(f"{location.key}/{WORK_DIRECTORY}")


def delta_options(store: OutputStore) -> dict[str, str]:
    """Return the options of a store under the names of delta-rs; empty for a directory."""
    if not isinstance(store, ObjectStore):
        return {}
    given = store.options.as_dict()
    if store.location.scheme not in S3_SCHEMES:
        return given
    options = {name: given[ours] for ours, name in _DELTA_NAMES.items() if ours in given}
    if given.get("anonymous", "").lower() == "true":
        options["aws_skip_signature"] = "true"
    if given.get("endpoint", "").startswith("http://"):
        options["aws_allow_http"] = "true"
    return options
