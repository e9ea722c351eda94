"""Sparse index: from an offset or a time to a chunk near it.

It has an entry per `index_interval_bytes`, at a chunk start. The log rebuilds an index rather than
trust it: users of an entry check that a chunk of that offset is there (`SegmentIndexes`).
See docs/log-format.md, section 7.
"""

import os
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import le, lt
from pathlib import Path
from typing import Final, NamedTuple, Self

from appendlog.files.filesystem import FileSystem
from appendlog.files.mapped_file import MappedFile
from appendlog.layout.format import (
    INDEX_ENTRY,
    INDEX_ENTRY_BYTES,
    INDEX_HEADER,
    INDEX_MAGIC,
    U32_MAX,
)

INDEX_GROUP_ENTRIES: Final = 32
"""Entries that are written at once for the active segment. A start after a crash goes on from the
last one in the file, over the headers of chunks."""


class IndexEntry(NamedTuple):
    """Place of a chunk in a segment.

    Attributes:
        offset: Base offset of the chunk.
        position: Position where the chunk starts.
        max_timestamp_ns: Greatest append time before that chunk in its segment. For the first
            chunk: greatest time of the log before it, or the chunk's own time if that is less.
    """

    offset: int
    position: int
    max_timestamp_ns: int


class IndexTable:
    """Index entries in ascending order, in memory or mapped from an index file.

    Args:
        base_offset: Base offset of the segment.
        offsets: Offsets of the chunks, relative to the base offset.
        positions: Positions of the chunks.
        times: Greatest append times before the chunks, ns since 1970 UTC.
        mapping: Mapped file behind the three views, if they are views of a file.
    """

    __slots__ = ("_base_offset", "_mapping", "_offsets", "_positions", "_times")

    def __init__(
        self,
        base_offset: int,
        offsets: "array[int] | memoryview[int]",
        positions: "array[int] | memoryview[int]",
        times: "array[int] | memoryview[int]",
        mapping: MappedFile | None = None,
    ) -> None:
        self._base_offset = base_offset
        self._offsets = offsets
        self._positions = positions
        self._times = times
        self._mapping = mapping

    @classmethod
    def empty(cls, base_offset: int) -> Self:
        """Return an empty table in memory, to which entries can be added."""
        return cls(base_offset, array("I"), array("I"), array("q"))

    @classmethod
    def of_file(cls, base_offset: int, content: MappedFile | bytes) -> Self:
        """Return the entries of an index file, whose size is a multiple of an entry's size.

        The views are little-endian like the file. On a big-endian machine all entries are wrong;
        the check at their use rejects them.
        """
        words, longs = memoryview(content).cast("I"), memoryview(content).cast("q")
        mapping = content if isinstance(content, MappedFile) else None
        return cls(base_offset, words[4::4], words[5::4], longs[3::2], mapping)

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[IndexEntry]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> IndexEntry:
        """Return an entry; `at` is not negative."""
        return IndexEntry(
            self._base_offset + self._offsets[at], self._positions[at], self._times[at]
        )

    @property
    def is_of_file(self) -> bool:
        """Return whether the table maps a file, which costs a descriptor as long as it lives."""
        return self._mapping is not None

    @property
    def is_current(self) -> bool:
        """Return whether the file has kept its length: reading past its end kills the process."""
        return self._mapping is None or self._mapping.size() == len(self._mapping)

    def append(self, entry: IndexEntry) -> None:
        """Add an entry after the others, to a table in memory."""
        assert isinstance(self._offsets, array), "a mapped table is not changed"
        assert isinstance(self._positions, array), "a mapped table is not changed"
        assert isinstance(self._times, array), "a mapped table is not changed"
        # The offsets last: a reader in another thread looks there first.
        self._times.append(entry.max_timestamp_ns)
        self._positions.append(entry.position)
        self._offsets.append(entry.offset - self._base_offset)

    def at_or_before(self, offset: int) -> int:
        """Return the index of the last entry at or before `offset`; -1 if none. O(log n)."""
        return bisect_right(self._offsets, offset - self._base_offset) - 1

    def before_time(self, timestamp_ns: int) -> int:
        """Return the last entry with only earlier records before it; -1 if none. O(log n)."""
        return bisect_left(self._times, timestamp_ns, 0, len(self._offsets)) - 1

    def count_before(self, position: int) -> int:
        """Return how many entries are before a position, if they ascend. O(log n)."""
        return bisect_left(self._positions, position)

    def is_ordered(self, first_position: int, end_position: int) -> bool:
        """Return whether all entries ascend and lie in `[first, end)` of the segment. O(n)."""
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
        """Return the entries in the format of the file."""
        pack = INDEX_ENTRY.pack
        return b"".join(map(pack, self._offsets, self._positions, self._times))


class ActiveIndex:
    """Index of the segment that is being written; its entries go to the file in groups.

    Entries that are in the file are not kept in memory.

    Args:
        base_offset: Base offset of the segment.
        interval_bytes: Minimum distance between entries.

    Attributes:
        interval_bytes: Minimum distance between entries.
        due_position: Position in the segment from which a data chunk gets an entry.
        stored_count: Number of entries in the file.
        tail: Entries after those in the file; replaced as a whole once they are stored.
    """

    __slots__ = ("_base_offset", "due_position", "interval_bytes", "stored_count", "tail")

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.due_position = 0
        self.stored_count = 0
        self.tail = IndexTable.empty(base_offset)

    def __len__(self) -> int:
        return self.stored_count + len(self.tail)

    def resumed(self, stored_count: int, last: IndexEntry) -> Self:
        """Return an index that continues after the first entries of the file.

        Args:
            stored_count: Number of valid entries in the file, >= 1.
            last: Last valid entry.
        """
        index = type(self)(self._base_offset, self.interval_bytes)
        index.stored_count = stored_count
        index.due_position = last.position + self.interval_bytes
        return index

    def add(self, offset: int, position: int, max_timestamp_ns: int) -> None:
        """Add a data chunk; most are too close to the last entry to get one."""
        if position < self.due_position:
            return
        if offset - self._base_offset > U32_MAX or position > U32_MAX:
            return
        self.due_position = position + self.interval_bytes
        self.tail.append(IndexEntry(offset, position, max_timestamp_ns))

    def store(self, filesystem: FileSystem, path: Path, salt: int) -> None:
        """Append the new entries to the file; replace a file of other origin.

        Raises:
            OSError: The content of the file is unknown; the entries stay in memory.
        """
        tail = self.tail
        buffers = [tail.encoded()]
        position = INDEX_ENTRY_BYTES * (1 + self.stored_count)
        flags = os.O_RDWR
        if not self.stored_count:
            # Another process may have mapped the old file: never truncate it.
            if filesystem.exists(path):
                filesystem.unlink(path)
            buffers.insert(0, index_header(salt, self._base_offset))
            position = 0
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        descriptor = filesystem.open(path, flags)
        try:
            filesystem.write_all(descriptor, buffers, position, sync=False)
        finally:
            filesystem.close(descriptor)
        # In this order: a reader that finds the new tail must also find the entries in the file.
        self.stored_count += len(tail)
        self.tail = IndexTable.empty(self._base_offset)


READ_BYTES_MAX: Final = 4096
"""Size up to which an index file is better read than mapped, for a table that is not kept."""


def map_index(
    filesystem: FileSystem, path: Path, salt: int, base_offset: int, read_bytes_max: int = 0
) -> IndexTable | None:
    """Return the entries of an index file; None if it is missing or another segment's.

    Does not check the entries.

    Args:
        filesystem: File operations.
        path: Path of the file.
        salt: Salt of the log.
        base_offset: Base offset of the segment.
        read_bytes_max: Size up to which the file is read, not mapped. A table that was read does
            not notice when the file becomes longer, so it must not be kept.
    """
    try:
        descriptor = filesystem.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        size = filesystem.size(descriptor)
        if size < INDEX_ENTRY_BYTES or size % INDEX_ENTRY_BYTES:
            return None
        content: MappedFile | bytes
        if size <= read_bytes_max:
            content = filesystem.read_all(descriptor, size, 0)
            is_whole = len(content) == size
        else:
            content = filesystem.map(descriptor, size)
            is_whole = content.size() == size
    except (OSError, ValueError):  # the file became shorter since `size`
        return None
    finally:
        filesystem.close(descriptor)
    if not is_whole or content[:INDEX_ENTRY_BYTES] != index_header(salt, base_offset):
        return None
    return IndexTable.of_file(base_offset, content)


def replace_index(filesystem: FileSystem, path: Path, table: IndexTable, header: bytes) -> None:
    """Replace the index file of a segment, if there is one, with a whole index.

    Not synced: the checks of entries find what a power cut damages, like any other damage.

    Raises:
        OSError: The old file is unchanged.
    """
    beside = path.with_name(f"{path.name}.new")
    descriptor = filesystem.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        filesystem.write_all(descriptor, [header, table.encoded()], 0, sync=False)
    finally:
        filesystem.close(descriptor)
    filesystem.rename(beside, path)


def index_header(salt: int, base_offset: int) -> bytes:
    """Return the header of a segment's index file."""
    return INDEX_HEADER.pack(INDEX_MAGIC, salt, base_offset)
