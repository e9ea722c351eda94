"""A bounded number of index tables at hand, however many logs and segments there are."""

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.files.open_files import OPEN_FILES, SHED_SECONDS_MAX, share_of_limit
from appendlog.segments.index import IndexTable

MAPPED_INDEXES_MAX: Final = 256
"""Tables of all logs of the process together, where its limit is large enough."""


class MappedIndexes:
    """A least-recently-used set of index tables. Thread-safe.

    A table that leaves the set is unmapped when its last user has let go of it.

    Args:
        capacity: Tables kept.

    Attributes:
        capacity: As given; may be changed.
    """

    def __init__(self, capacity: int = MAPPED_INDEXES_MAX) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[FileSystem, Path], IndexTable] = OrderedDict()
        OPEN_FILES.add_cache(self)

    def __len__(self) -> int:
        return len(self._tables)

    def get(self, filesystem: FileSystem, path: Path) -> IndexTable | None:
        """Return a table that is at hand, or None."""
        key = (filesystem, path)
        with self._lock:
            table = self._tables.get(key)
            if table is not None:
                self._tables.move_to_end(key)
            return table

    def put(self, filesystem: FileSystem, path: Path, table: IndexTable) -> None:
        """Keep a table, in the place of another one of that file."""
        with self._lock:
            self._tables[filesystem, path] = table
            self._tables.move_to_end((filesystem, path))
            while len(self._tables) > self.capacity:
                self._tables.popitem(last=False)

    def forget(self, filesystem: FileSystem, path: Path) -> None:
        """Let go of a table; it need not be there."""
        with self._lock:
            self._tables.pop((filesystem, path), None)

    def shed(self) -> int:
        """Let go of half of the tables of files, those used longest ago; return how many.

        None if another thread is at work here for longer than `SHED_SECONDS_MAX`.
        """
        if not self._lock.acquire(timeout=SHED_SECONDS_MAX):
            return 0
        try:
            of_files = [key for key, table in self._tables.items() if table.is_of_file]
            for key in of_files[: (len(of_files) + 1) // 2]:
                del self._tables[key]
            return (len(of_files) + 1) // 2
        finally:
            self._lock.release()

    def close(self) -> None:
        """Let go of all tables of files; those that were built in memory cost more, and stay."""
        with self._lock:
            for key in [key for key, table in self._tables.items() if table.is_of_file]:
                del self._tables[key]


SHARED_INDEXES: Final = MappedIndexes(share_of_limit(MAPPED_INDEXES_MAX))
"""The set that all logs of the process share."""
