"""A bounded number of open files, however many logs there are.

Ten thousand idle queues must cost no descriptor. Files are borrowed for one operation and
stay open until they are the least recently used beyond `capacity`, or are forgotten.
"""

import os
import threading
from collections import OrderedDict
from pathlib import Path
from types import TracebackType
from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.files.open_files import OPEN_FILES, SHED_SECONDS_MAX, share_of_limit

OPEN_FILES_MAX: Final = 512
"""Kept open by all logs of the process together, where its limit is large enough."""


class Borrowed:
    """An open file while somebody uses it: `with descriptors.borrow(...) as descriptor`."""

    __slots__ = ("_descriptors", "descriptor", "filesystem", "is_forgotten", "users")

    def __init__(self, owner: "Descriptors", filesystem: FileSystem, descriptor: int) -> None:
        self._descriptors = owner
        self.filesystem = filesystem
        self.descriptor = descriptor
        self.users = 0
        self.is_forgotten = False

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._descriptors.release(self)


class Descriptors:
    """A least-recently-used set of open files. Thread-safe.

    Args:
        capacity: Files kept open; more are open only while more are borrowed at once.

    Attributes:
        capacity: As given; may be changed.
    """

    def __init__(self, capacity: int = OPEN_FILES_MAX) -> None:
        self.capacity = capacity
        # To open a file may take `shed`, in the same thread.
        self._lock = threading.RLock()
        self._open: OrderedDict[tuple[FileSystem, Path], Borrowed] = OrderedDict()
        OPEN_FILES.add_cache(self)

    def __len__(self) -> int:
        return len(self._open)

    def borrow(self, filesystem: FileSystem, path: Path, flags: int = os.O_RDWR) -> Borrowed:
        """Return an open file, opening it if it is not; enter it to get the descriptor.

        Args:
            filesystem: Opens and closes the file.
            path: File.
            flags: Of `open`; used only when the file is not open yet.

        Raises:
            OSError: The file cannot be opened.
        """
        key = (filesystem, path)
        with self._lock:
            entry = self._open.get(key)
            if entry is None:
                entry = Borrowed(self, filesystem, filesystem.open(path, flags))
                self._open[key] = entry
            else:
                self._open.move_to_end(key)
            entry.users += 1
            while len(self._open) > self.capacity:
                self._drop(next(iter(self._open)))
            return entry

    def release(self, entry: Borrowed) -> None:
        """End one use; called by `Borrowed`."""
        with self._lock:
            entry.users -= 1
            if entry.is_forgotten and not entry.users:
                entry.filesystem.close(entry.descriptor)

    def forget(self, filesystem: FileSystem, path: Path) -> None:
        """Close a file, as soon as nobody uses it; it need not be open."""
        with self._lock:
            if (filesystem, path) in self._open:
                self._drop((filesystem, path))

    def shed(self) -> int:
        """Close half of the files that nobody uses, those used last longest ago; return how many.

        None if another thread is at work here for longer than `SHED_SECONDS_MAX`.
        """
        if not self._lock.acquire(timeout=SHED_SECONDS_MAX):
            return 0
        try:
            unused = [key for key, entry in self._open.items() if not entry.users]
            for key in unused[: (len(unused) + 1) // 2]:
                self._drop(key)
            return (len(unused) + 1) // 2
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close all files that nobody uses, and the others once they are given back."""
        with self._lock:
            for key in list(self._open):
                self._drop(key)

    def _drop(self, key: tuple[FileSystem, Path]) -> None:
        entry = self._open.pop(key)
        entry.is_forgotten = True
        if not entry.users:
            entry.filesystem.close(entry.descriptor)


SHARED_DESCRIPTORS: Final = Descriptors(share_of_limit(OPEN_FILES_MAX))
"""The set that all logs of the process share."""
