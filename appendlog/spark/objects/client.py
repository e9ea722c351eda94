"""The few operations on objects that everything else is made of."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import BinaryIO, ClassVar, Final

COPY_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a listing.

    Attributes:
        key: `bucket/a/b`.
        size_bytes: Its size.
    """

    key: str
    size_bytes: int


class ObjectFile(ABC):
    """An object that is open for reads: each one asks the store for just these bytes.

    Attributes:
        size_bytes: Of the object.
    """

    size_bytes: int

    @abstractmethod
    def read_at(self, position: int, size: int) -> bytes:
        """Read at most `size` bytes at `position`; fewer only at the end."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


class ObjectClient(ABC):
    """One store. Thread-safe. Keys are `bucket/a/b`.

    All methods raise StoreError when the store refuses or cannot be reached, within the time
    and tries of its options.

    Attributes:
        PROBE_NAME: Of the empty object that `check_creates` leaves: where it stands, the store
            has shown what it can do, or shows it again.
    """

    PROBE_NAME: ClassVar[str] = ".create-if-absent"

    @abstractmethod
    def open(self, key: str) -> ObjectFile:
        """Open an object.

        Raises:
            FileNotFoundError: There is none.
        """

    @abstractmethod
    def exists(self, key: str) -> bool:
        """Tell whether there is an object of that key, or one below it."""

    @abstractmethod
    def names(self, key: str) -> list[str]:
        """Return the names directly below a key, objects and folders.

        Raises:
            FileNotFoundError: There are none.
        """

    @abstractmethod
    def objects(self, key: str) -> list[StoredObject]:
        """Return all objects below a key, sorted; none when there are none."""

    @abstractmethod
    def put(self, key: str, content: BinaryIO) -> None:
        """Store what is left in a file as an object, whole; in the place of an older one."""

    @abstractmethod
    def create(self, key: str, data: bytes) -> None:
        """Store an object if there is none of that key: the store itself decides, at once.

        The caller has had `check_creates` of a folder of the same bucket.

        Raises:
            FileExistsError: There is one.
        """

    @abstractmethod
    def check_creates(self, folder: str) -> None:
        """See that `create` can be relied on; may leave an empty object in the folder.

        Raises:
            StoreError: Also when the store cannot promise it.
        """

    @abstractmethod
    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store.

        Raises:
            FileNotFoundError: There is no such source.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; it need not be there."""
