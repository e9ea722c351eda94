"""Bounded cache of index tables, for any number of logs and segments."""

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

from appendlog.files.filesystem import FileSystem
from appendlog.files.open_files import LOCK_SECONDS_MAX, OPEN_FILES, share_of_limit
from appendlog.segments.index import IndexTable

MAPPED_INDEXES_MAX: Final = 256
"""Maximum number of tables for all logs of the process, if its limit of files allows that."""


class MappedIndexes:
    """Least-recently-used cache of index tables. Thread-safe.

    A table that leaves the cache is unmapped once nothing refers to it.

    Args:
        capacity: Maximum number of tables.

    Attributes:
        capacity: Maximum number of tables; may be changed.
    """

    def __init__(self, capacity: int = MAPPED_INDEXES_MAX) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[FileSystem, Path], IndexTable] = OrderedDict()
        OPEN_FILES.add_cache(self)

    def __len__(self) -> int:
        return len(self._tables)

    def get(self, filesystem: FileSystem, path: Path) -> IndexTable | None:
        """Return a cached table, or None."""
        key = (filesystem, path)
        with self._lock:
            table = self._tables.get(key)
            if table is not None:
                self._tables.move_to_end(key)
            return table

    def put(self, filesystem: FileSystem, path: Path, table: IndexTable) -> None:
        """Add a table; it replaces another one of that file."""
        with self._lock:
            self._tables[filesystem, path] = table
            self._tables.move_to_end((filesystem, path))
            while len(self._tables) > self.capacity:
                self._tables.popitem(last=False)

    def evict(self, filesystem: FileSystem, path: Path) -> None:
        """Remove a table, if it is there."""
        with self._lock:
            self._tables.pop((filesystem, path), None)

    def evict_below(self, directory: Path) -> None:
        """Remove all tables of files below a directory."""
        with self._lock:
            for key in [key for key in self._tables if key[1].is_relative_to(directory)]:
                del self._tables[key]

    def evict_unused(self) -> int:
        """Remove half of the tables of files, least recently used first; return how many.

        Returns 0 if another thread holds the lock for longer than `LOCK_SECONDS_MAX`.
        """
        if not self._lock.acquire(timeout=LOCK_SECONDS_MAX):
            return 0
        try:
            of_files = [key for key, table in self._tables.items() if table.is_of_file]
            for key in of_files[: (len(of_files) + 1) // 2]:
                del self._tables[key]
            return (len(of_files) + 1) // 2
        finally:
            self._lock.release()

    def close(self) -> None:
        """Remove all tables of files; those built in memory stay, because they cost more."""
        with self._lock:
            for key in [key for key, table in self._tables.items() if table.is_of_file]:
                del self._tables[key]


SHARED_INDEXES: Final = MappedIndexes(share_of_limit(MAPPED_INDEXES_MAX))
"""Cache that all logs of the process share."""
