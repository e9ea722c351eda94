"""Operations that a commit needs of the store of an output: a disk or an object store.

They make exports exact: `create` decides which of several writers wins, `open_new` never shows half
a file, and `move` may be repeated. Commits need nothing else of a store: no locks, no directories,
no order of listings.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

COPY_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file in a store.

    Attributes:
        path: Path in the store, with `/` between its parts.
        size_bytes: Size of the file in bytes.
    """

    path: str
    size_bytes: int


class OutputStore(ABC):
    """Root of an output. Picklable; usable from several threads and processes.

    Paths are relative, with `/` between their parts, without `.` and `..`. A folder exists as long
    as it has a file. Every method raises OSError if the store fails. Unless a method says
    otherwise, it is unknown then whether the operation was done.

    Attributes:
        url: URL of the root as the user gave it, which other libraries can open; no credentials.
        concurrency: Useful number of operations at once; 1 if operations take little time.
    """

    url: str
    concurrency: int = 1

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: The file does not exist.
        """

    @abstractmethod
    def create(self, path: str, data: bytes) -> None:
        """Create a file, whole and durable, if it is absent; of several callers one succeeds.

        Raises:
            FileExistsError: The file exists; it is unchanged.
        """

    @abstractmethod
    def list(self, folder: str) -> list[StoredFile]:
        """Return all files below a folder, at any depth, ordered by path.

        Args:
            folder: Path of a folder, which may be absent; `""` is the root.
        """

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Rename a file, durably; replaces a file at `target`.

        May be repeated: does nothing if `source` is gone and `target` exists. Readers of `target`
        see no file or the whole file.

        Raises:
            FileNotFoundError: Neither file exists.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, if it exists."""

    @abstractmethod
    def open_new(self, path: str) -> AbstractContextManager[BinaryIO]:
        """Write a file: whole and durable when the block ends, absent if the block raises.

        Replaces an older file.
        """

    @abstractmethod
    def open_read(self, path: str) -> BinaryIO:
        """Open a file for random reads; the caller closes it.

        Raises:
            FileNotFoundError: The file does not exist.
        """

    @contextmanager
    def locked(self, path: str) -> Iterator[bool]:
        """Hold a lock in the block, if the store has locks.

        The lock refuses a second export early, which would lose at its commit. Commits are exact
        without it.

        Args:
            path: Path of the file that is locked.

        Returns:
            Whether the lock is held; False if the store has no locks.

        Raises:
            BlockingIOError: Another process holds it.
        """
        yield False
