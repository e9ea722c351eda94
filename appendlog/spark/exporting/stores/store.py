"""Where an output lives: the few operations that a commit needs, on a disk or an object store.

Everything that makes an export exact is built from these. `create` decides who wins, `open_new`
never shows half a file, `move` may be repeated. Nothing else is assumed of a store: no locks, no
directories, no order of listings.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

COPY_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file of a store.

    Attributes:
        path: In the store, with `/` between its parts.
        size_bytes: What it holds.
    """

    path: str
    size_bytes: int


class OutputStore(ABC):
    """The root of an output. Can be pickled; usable from several threads and processes.

    Paths are relative, with `/` between their parts, without `.` and `..`. Folders are not things
    of their own: they are there as long as a file is in them. OSError is raised by every method
    when the store fails; where nothing is said it is unknown then what was done.

    Attributes:
        url: The root, as the user gave it and as other libraries can open it; no credentials.
        concurrency: How many operations at once pay: 1 where they take no time worth it.
    """

    url: str
    concurrency: int = 1

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return a whole file.

        Raises:
            FileNotFoundError: There is none.
        """

    @abstractmethod
    def create(self, path: str, data: bytes) -> None:
        """Create a file, whole and durable, if there is none: of several callers one succeeds.

        Raises:
            FileExistsError: There is one; it is unchanged.
        """

    @abstractmethod
    def list(self, folder: str) -> list[StoredFile]:
        """Return all files below a folder, at any depth, by path; empty when it is absent.

        Args:
            folder: Path of a folder; `""` is the root.
        """

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Give a file another name, durably; what was at `target` is replaced.

        May be repeated: nothing is done when `source` is gone and `target` is there. Whoever
        reads `target` sees nothing or the whole file.

        Raises:
            FileNotFoundError: Neither is there.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""

    @abstractmethod
    def open_new(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Write a file: whole and durable when the block ends, absent when it raises.

        What was there before is replaced.
        """

    @abstractmethod
    def open_read(self, path: str) -> BinaryIO:
        """Open a file to read in it here and there; the caller closes it.

        Raises:
            FileNotFoundError: There is none.
        """

    @contextmanager
    def locked(self, path: str) -> Iterator[bool]:
        """Keep other processes that ask for the same lock out, where the store can do that.

        A courtesy that refuses early what would lose in the end; nothing is exact because of it.

        Args:
            path: Of a file that stands for the lock.

        Returns:
            Whether nobody else can hold it now; False when the store has no locks.

        Raises:
            BlockingIOError: Another process holds it.
        """
        yield False
