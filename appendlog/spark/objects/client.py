"""The operations on objects that reads and exports need."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import BinaryIO, ClassVar, Final

COPY_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing.

    Attributes:
        key: Bucket and key, `bucket/a/b`.
        size_bytes: Size of the object in bytes.
    """

    key: str
    size_bytes: int


class ObjectFile(ABC):
    """An object that is open for reads; each read requests exactly its bytes from the store.

    Attributes:
        size_bytes: Size of the object in bytes.
    """

    size_bytes: int

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """Read at most `size` bytes at `position`; fewer only at the end."""

    @abstractmethod
    def close(self) -> None:
        """Release the object."""


class ObjectClient(ABC):
    """Client of one store; thread-safe. Keys are `bucket/a/b`.

    All methods raise StoreError if the store refuses or cannot be reached, within the time limits
    and tries of its options.

    Attributes:
        PROBE_NAME: Name of the empty object with which `check_creates` tests the store.
    """

    PROBE_NAME: ClassVar[str] = ".create-if-absent"

    @abstractmethod
    def open(self, key: str) -> ObjectFile:
        """Open an object for reads.

        Raises:
            FileNotFoundError: There is no such object.
        """

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Return whether there is an object of that key, or one below it."""

    @abstractmethod
    def names(self, key: str) -> list[str]:
        """Return the names of objects and folders directly below a key.

        Raises:
            FileNotFoundError: There is nothing below the key.
        """

    @abstractmethod
    def objects(self, key: str) -> list[StoredObject]:
        """Return all objects below a key, sorted."""

    @abstractmethod
    def put(self, key: str, content: BinaryIO) -> None:
        """Store the rest of a file as an object, whole; replaces an older one."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> None:
        """Store an object if there is none of that key; the store decides it in one step.

        The caller must have called `check_creates` for a folder of the same bucket.

        Raises:
            FileExistsError: There is an object of that key.
        """

    @abstractmethod
    def check_creates(self, folder: str) -> None:
        """Check that `create` never replaces an object; may leave an empty object in the folder.

        Raises:
            StoreError: The store replaces objects, or it failed.
        """

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store.

        Raises:
            FileNotFoundError: The source does not exist.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; it need not be there."""
