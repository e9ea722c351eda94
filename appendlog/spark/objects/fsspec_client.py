"""Reads and writes objects through fsspec: Google Cloud, Azure, memory, and other stores."""

from threading import Lock
from typing import Any, BinaryIO, Final

from appendlog.spark.errors import StoreError
from appendlog.spark.objects.client import COPY_BYTES, ObjectClient, ObjectFile, StoredObject
from appendlog.spark.objects.faults import errors_as_one_line
from appendlog.spark.objects.store_options import StoreOptions

_CREATE_IF_ABSENT: Final[dict[str, dict[str, Any]]] = {
    "memory": {"mode": "create"},
    "gs": {"mode": "create"},
    "gcs": {"mode": "create"},
    "abfs": {"mode": "create", "overwrite": False},
    "az": {"mode": "create", "overwrite": False},
}
"""Arguments that make a library's write conditional, by scheme.

Other libraries look for the object and then write, in two steps.
"""
_MEMORY_LOCK: Final = Lock()
"""fsspec's memory store takes two steps too; no other process has it, so a lock joins them."""


class FsspecClient(ObjectClient):
    """Client of a store for which fsspec has a library.

    Args:
        filesystem: File system of fsspec.
        scheme: Scheme of URLs, for messages.
        options: Options of the store; their secrets appear in no message.
    """

    def __init__(self, filesystem: Any, scheme: str, options: StoreOptions) -> None:  # noqa: ANN401
        self._filesystem: Final = filesystem
        self._scheme = scheme
        self._options = options

    def open(self, key: str) -> ObjectFile:
        """Open an object; asks the store for its size."""
        with errors_as_one_line(self._url(key), self._options):
            size: int | None = self._filesystem.info(key)["size"]
        if size is None:
            raise StoreError(f"{self._url(key)}: the store does not report the size of the object")
        return _FsspecFile(self, key, size)

    def read(self, key: str, position: int, end: int) -> bytes:
        """Return the bytes `[position, end)` of an object, in one request."""
        with errors_as_one_line(self._url(key), self._options):
            data: bytes = self._filesystem.cat_file(key, start=position, end=end)
        return data

    def exists(self, key: str) -> bool:
        """Return whether there is an object of that key, or one below it."""
        with errors_as_one_line(self._url(key), self._options):
            try:
                self._filesystem.info(key)  # `exists` of fsspec returns false for every error
            except FileNotFoundError:
                return False
        return True

    def names(self, key: str) -> list[str]:
        """Return the names directly below a key."""
        with errors_as_one_line(self._url(key), self._options):
            paths = self._filesystem.ls(key, detail=False, refresh=True)
        return [path.rstrip("/").rpartition("/")[2] for path in paths]

    def objects(self, key: str) -> list[StoredObject]:
        """Return all objects below a key, sorted."""
        with errors_as_one_line(self._url(key), self._options):
            self._filesystem.invalidate_cache()
            try:
                found = self._filesystem.find(key, detail=True)
            except FileNotFoundError:
                return []
        return sorted(
            (StoredObject(path.strip("/"), info["size"]) for path, info in found.items()),
            key=lambda each: each.key,
        )

    def put(self, key: str, content: BinaryIO) -> None:
        """Store the rest of a file as an object, whole."""
        with errors_as_one_line(self._url(key), self._options):
            # The object gets its name only if the file is closed without an error.
            file = self._filesystem.open(key, "wb", block_size=COPY_BYTES)
            try:
                while data := content.read(COPY_BYTES):
                    file.write(data)
            except BaseException:
                file.discard()
                raise
            file.close()

    def check_creates(self, folder: str) -> None:
        """Check that `create` never replaces an object."""
        if self._scheme not in _CREATE_IF_ABSENT:
            raise StoreError(
                f"{self._scheme}:// cannot create a file only if there is none, on which an "
                "export relies: write to a directory, S3, Google Cloud or Azure"
            )

    def create(self, key: str, data: bytes) -> None:
        """Store an object if there is none of that key."""
        condition = _CREATE_IF_ABSENT[self._scheme]
        with errors_as_one_line(self._url(key), self._options), _MEMORY_LOCK:
            try:
                self._filesystem.pipe_file(key, data, **condition)
            except Exception as error:
                if str(getattr(error, "code", "")) == "412":
                    raise FileExistsError(self._url(key)) from None
                raise

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store."""
        with errors_as_one_line(self._url(source), self._options):
            self._filesystem.cp_file(source, target)

    def delete(self, key: str) -> None:
        """Remove an object; it need not be there."""
        with errors_as_one_line(self._url(key), self._options):
            try:
                self._filesystem.rm_file(key)
            except FileNotFoundError:
                return

    def _url(self, key: str) -> str:
        return f"{self._scheme}://{key}"


class _FsspecFile(ObjectFile):
    def __init__(self, client: FsspecClient, key: str, size_bytes: int) -> None:
        self._client = client
        self._key = key
        self.size_bytes = size_bytes

    def read_at(self, position: int, size: int) -> bytes:
        end = min(position + size, self.size_bytes)
        return self._client.read(self._key, position, end) if position < end else b""

    def close(self) -> None:
        """Do nothing: each read is a request of its own."""
