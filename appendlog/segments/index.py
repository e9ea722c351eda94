"""The sparse index: from an offset or a time to a chunk near it.

An entry per `index_interval_bytes`, at a chunk start. The index is rebuilt, not trusted:
whoever uses an entry checks that a chunk of that offset stands there (`SegmentIndexes`).
See docs/log-format.md, section 7.
"""

import mmap
import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import le, lt
from pathlib import Path
from typing import NamedTuple, Self

from appendlog.files.filesystem import FileSystem
from appendlog.layout.format import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER,
    INDEX_MAGIC,
    U32_MAX,
)


class IndexEntry(NamedTuple):
    """One place in a segment.

    Attributes:
        offset: Base offset of the chunk there.
        position: Where the chunk starts.
        max_timestamp_ns: Greatest append time before that chunk in its segment; of the first
            chunk: of the log before it, or the chunk's own if that is less.
    """

    offset: int
    position: int
    max_timestamp_ns: int


class IndexTable:
    """Entries in ascending order: in memory, or mapped from an index file.

    Args:
        base_offset: Of the segment.
        offsets: Relative to it.
        positions: Of the chunks.
        times: Greatest append times before them.
        mapping: Where the three views look, if they are of a file.
    """

    __slots__ = ("_base_offset", "_mapping", "_offsets", "_positions", "_times")

    def __init__(
        self,
        base_offset: int,
        offsets: "array[int] | memoryview[int]",
        positions: "array[int] | memoryview[int]",
        times: "array[int] | memoryview[int]",
        mapping: mmap.mmap | None = None,
    ) -> None:
        self._base_offset = base_offset
        self._offsets = offsets
        self._positions = positions
        self._times = times
        self._mapping = mapping

    @classmethod
    def empty(cls, base_offset: int) -> Self:
        """Return a table in memory that can be added to."""
        return cls(base_offset, array("I"), array("I"), array("q"))

    @classmethod
    def mapped(cls, base_offset: int, mapping: mmap.mmap) -> Self:
        """Return the entries of an index file, whose size is a multiple of an entry's.

        The views are little-endian like the file; where the machine is not, no entry holds
        what it says, and all of them are found out when they are used.
        """
        words, longs = memoryview(mapping).cast("I"), memoryview(mapping).cast("q")
        return cls(base_offset, words[4::4], words[5::4], longs[3::2], mapping)

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[IndexEntry]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> IndexEntry:
        """Return one entry; `at` is not negative."""
        return IndexEntry(
            self._base_offset + self._offsets[at], self._positions[at], self._times[at]
        )

    @property
    def is_of_file(self) -> bool:
        """Tell whether a file is mapped, which costs a descriptor as long as the table lives."""
        return self._mapping is not None

    @property
    def is_current(self) -> bool:
        """Tell whether the file is as long as it was: reading past its end would be fatal."""
        return self._mapping is None or self._mapping.size() == len(self._mapping)

    def append(self, entry: IndexEntry) -> None:
        """Add an entry behind the others, to a table in memory."""
        assert isinstance(self._offsets, array), "a mapped table is not changed"
        assert isinstance(self._positions, array), "a mapped table is not changed"
        assert isinstance(self._times, array), "a mapped table is not changed"
        # The offsets last: a reader in another thread looks for an entry there.
        self._times.append(entry.max_timestamp_ns)
        self._positions.append(entry.position)
        self._offsets.append(entry.offset - self._base_offset)

    def at_or_before(self, offset: int) -> int:
        """Return which entry is the last at or before `offset`; -1 when none is. O(log n)."""
        return bisect_right(self._offsets, offset - self._base_offset) - 1

    def before_time(self, timestamp_ns: int) -> int:
        """Return the last entry with only earlier records before it; -1 when none. O(log n)."""
        return bisect_left(self._times, timestamp_ns, 0, len(self._offsets)) - 1

    def count_before(self, position: int) -> int:
        """Return how many entries point before a position, if they ascend. O(log n)."""
        return bisect_left(self._positions, position)

    def is_ordered(self, first_position: int, end_position: int) -> bool:
        """Tell whether all entries ascend, and point into `[first, end)` of the segment. O(n)."""
        if not len(self):
            return True
        times, positions, offsets = (
            column.tolist() for column in (self._times, self._positions, self._offsets)
        )
        return (
            first_position <= positions[0]
            and positions[-1] < end_position
            and all(map(lt, positions, islice(positions, 1, None)))
            and all(map(lt, offsets, islice(offsets, 1, None)))
            and all(map(le, times, islice(times, 1, None)))
        )

    def encoded(self) -> bytes:
        """Return the entries as they stand in the file."""
        pack = INDEX_ENTRY.pack
        return b"".join(map(pack, self._offsets, self._positions, self._times))


class ActiveIndex:
    """The index of the segment that is written: copied to its file in groups.

    What is in the file is not kept in memory.

    Args:
        base_offset: Of the segment.
        interval_bytes: Least distance between entries.

    Attributes:
        stored_count: Entries in the file.
        tail: The entries behind them. Replaced whole when they are in the file.
    """

    __slots__ = ("_base_offset", "_interval_bytes", "_last_position", "stored_count", "tail")

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._last_position = -interval_bytes
        self.stored_count = 0
        self.tail = IndexTable.empty(base_offset)

    def __len__(self) -> int:
        return self.stored_count + len(self.tail)

    def resumed(self, stored_count: int, last: IndexEntry) -> Self:
        """Return an index that goes on behind the first entries of the file.

        Args:
            stored_count: Entries of the file that count, >= 1.
            last: The last of them.
        """
        index = type(self)(self._base_offset, self._interval_bytes)
        index.stored_count = stored_count
        index._last_position = last.position
        return index

    def add(self, offset: int, position: int, max_timestamp_ns: int) -> None:
        """Note a data chunk; most are too near to the last entry to get one."""
        if position - self._last_position < self._interval_bytes:
            return
        if offset - self._base_offset > U32_MAX or position > U32_MAX:
            return
        self._last_position = position
        self.tail.append(IndexEntry(offset, position, max_timestamp_ns))

    def store(self, filesystem: FileSystem, path: Path, salt: int) -> None:
        """Put what is not in the file yet behind what is; a file of other origin goes.

        Raises:
            OSError: It is not known what is in the file; the entries stay in memory.
        """
        tail = self.tail
        buffers = [tail.encoded()]
        position = INDEX_ENTRY_BYTES * (1 + self.stored_count)
        flags = os.O_RDWR
        if not self.stored_count:
            # Another process may have mapped an old one: it is never made shorter.
            if filesystem.exists(path):
                filesystem.unlink(path)
            buffers.insert(0, index_header(salt, self._base_offset))
            position, flags = 0, os.O_RDWR | os.O_CREAT | os.O_EXCL
        descriptor = filesystem.open(path, flags)
        try:
            filesystem.write_all(descriptor, buffers, position, sync=False)
        finally:
            filesystem.close(descriptor)
        # In this order: a reader that finds the new tail must find the file's entries.
        self.stored_count += len(tail)
        self.tail = IndexTable.empty(self._base_offset)


def map_index(filesystem: FileSystem, path: Path, salt: int, base_offset: int) -> IndexTable | None:
    """Return the entries of an index file; None when it is missing or another segment's.

    Nothing about the entries is checked.
    """
    try:
        descriptor = filesystem.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        size = filesystem.size(descriptor)
        if size < INDEX_ENTRY_BYTES or size % INDEX_ENTRY_BYTES:
            return None
        mapping = filesystem.map(descriptor, size)
    except (OSError, ValueError):  # it became shorter meanwhile
        return None
    finally:
        filesystem.close(descriptor)
    if mapping.size() != size or mapping[:INDEX_ENTRY_BYTES] != index_header(salt, base_offset):
        return None
    return IndexTable.mapped(base_offset, mapping)


def replace_index(filesystem: FileSystem, path: Path, table: IndexTable, header: bytes) -> None:
    """Put a whole index in the place of what is there, if anything.

    Not synced: what a power cut leaves of it is found out like any other damage.

    Raises:
        OSError: The file is as it was.
    """
    beside = path.with_name(f"{path.name}.new")
    descriptor = filesystem.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        filesystem.write_all(descriptor, [header, table.encoded()], 0, sync=False)
    finally:
        filesystem.close(descriptor)
    filesystem.rename(beside, path)


def index_header(salt: int, base_offset: int) -> bytes:
    """Return the first bytes of the index file of a segment."""
    return INDEX_HEADER.pack(INDEX_MAGIC, salt, base_offset)
