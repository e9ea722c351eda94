"""Reads and writes objects through the file systems of Arrow: S3 and HDFS."""

from typing import BinaryIO, Final, Protocol

import pyarrow as pa
from pyarrow import fs

from appendlog.spark.errors import StoreError
from appendlog.spark.objects.client import COPY_BYTES, ObjectClient, ObjectFile, StoredObject
from appendlog.spark.objects.faults import errors_as_one_line
from appendlog.spark.objects.store_options import StoreOptions


class Creator(Protocol):
    """Creates objects only if absent, which Arrow's file systems cannot; see `ObjectClient`."""

    def check(self, folder: str) -> None:
        """Check that the store refuses to create an object twice."""

    def create(self, key: str, data: bytes) -> None:
        """Store an object if there is none of that key."""


class ArrowClient(ObjectClient):
    """Client of a store for which Arrow has a file system.

    Args:
        filesystem: File system of Arrow.
        scheme: Scheme of URLs, for messages.
        options: Options of the store; their secrets appear in no message.
        creator: Creates objects only if they are absent.
    """

    def __init__(
        self, filesystem: fs.FileSystem, scheme: str, options: StoreOptions, creator: Creator
    ) -> None:
        self._filesystem: Final = filesystem
        self._scheme = scheme
        self._options = options
        self._creator = creator

    def open(self, key: str) -> ObjectFile:
        """Open an object; asks the store for its size."""
        with errors_as_one_line(self._url(key), self._options):
            return _ArrowFile(self._filesystem.open_input_file(key), self._url(key), self._options)

    def exists(self, key: str) -> bool:
        """Return whether there is an object of that key, or one below it."""
        with errors_as_one_line(self._url(key), self._options):
            found = self._filesystem.get_file_info(key)
        return bool(found.type != fs.FileType.NotFound)

    def names(self, key: str) -> list[str]:
        """Return the names directly below a key."""
        found = self._list(key, recursive=False)
        if not found and not self.exists(key):
            raise FileNotFoundError(f"{self._url(key)}: no such object or folder")
        return [info.base_name for info in found]

    def objects(self, key: str) -> list[StoredObject]:
        """Return all objects below a key, sorted."""
        found = self._list(key, recursive=True)
        files = [
            StoredObject(info.path, info.size) for info in found if info.type == fs.FileType.File
        ]
        return sorted(files, key=lambda each: each.key)

    def put(self, key: str, content: BinaryIO) -> None:
        """Store the rest of a file as an object, whole."""
        with errors_as_one_line(self._url(key), self._options):
            self._make_folder(key)
            stream = self._filesystem.open_output_stream(key)
            while data := content.read(COPY_BYTES):
                stream.write(data)
            # Only closing makes the object visible, and a failed write skips it.
            stream.close()

    def create(self, key: str, data: bytes) -> None:
        """Store an object if there is none of that key."""
        with errors_as_one_line(self._url(key), self._options):
            self._make_folder(key)
            self._creator.create(key, data)

    def check_creates(self, folder: str) -> None:
        """Check that `create` never replaces an object."""
        with errors_as_one_line(self._url(folder), self._options):
            self._creator.check(folder)

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store."""
        with errors_as_one_line(self._url(source), self._options):
            self._make_folder(target)
            try:
                self._filesystem.copy_file(source, target)
            except (OSError, pa.ArrowException):
                if not self.exists(source):
                    raise FileNotFoundError(f"{self._url(source)}: no such object") from None
                raise

    def delete(self, key: str) -> None:
        """Remove an object; it need not be there."""
        with errors_as_one_line(self._url(key), self._options):
            try:
                self._filesystem.delete_file(key)
            except FileNotFoundError:
                return

    def _list(self, key: str, *, recursive: bool) -> list[fs.FileInfo]:
        selector = fs.FileSelector(key, allow_not_found=True, recursive=recursive)
        with errors_as_one_line(self._url(key), self._options):
            found = list(self._filesystem.get_file_info(selector))
        bucket = key.partition("/")[0]
        # The listing of a bucket that does not exist is empty too.
        if not found and self._scheme == "s3" and not self.exists(bucket):
            raise StoreError(f"{self._url(bucket)}: no such bucket")
        return found

    def _make_folder(self, key: str) -> None:
        """Make the folder of an object in stores with real folders; S3 has none."""
        if self._scheme == "hdfs":
            self._filesystem.create_dir(key.rpartition("/")[0], recursive=True)

    def _url(self, key: str) -> str:
        return f"{self._scheme}://{key}"


class _ArrowFile(ObjectFile):
    def __init__(self, file: pa.NativeFile, url: str, options: StoreOptions) -> None:
        self._file = file
        self._url = url
        self._options = options
        self.size_bytes = file.size()

    def read_at(self, position: int, size: int) -> bytes:
        wanted = min(size, self.size_bytes - position)
        if wanted <= 0:
            return b""
        with errors_as_one_line(self._url, self._options):
            data: bytes = self._file.read_at(wanted, position)
        return data

    def close(self) -> None:
        self._file.close()


class NoCreator:
    """Refuses to create objects, in a store that cannot hold the manifests of an export.

    Args:
        reason: Why the store cannot, and what to do.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def check(self, folder: str) -> None:
        """Refuse with the reason."""
        raise StoreError(self._reason)

    def create(self, key: str, data: bytes) -> None:
        """Refuse with the reason."""
        raise StoreError(self._reason)
