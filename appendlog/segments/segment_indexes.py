"""Lookup of places in the segments of one log, through indexes that are always verified.

An entry is compared with the chunk header at its position. An index is rebuilt from the chunk
headers of its segment if it is missing, torn, unsorted, of another segment, ahead of or behind its
segment, or had a wrong entry. The thread that first needs the index rebuilds it.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    CHUNK_MAGIC,
    CHUNK_PLACE,
    INDEX_ENTRY_BYTES,
    KIND_DATA,
)
from appendlog.layout.segment_header import SEGMENT_HEADER_BYTES_MAX, decode_segment_header
from appendlog.layout.summary import SegmentSummary
from appendlog.segments.index import (
    ActiveIndex,
    IndexEntry,
    IndexTable,
    index_header,
    map_index,
    replace_index,
)
from appendlog.segments.mapped_indexes import MappedIndexes
from appendlog.segments.scan import WINDOW_BYTES, SegmentScan
from appendlog.segments.segment import Segment

REBUILDS_MAX: Final = 3
"""Maximum number of rebuilds of a segment's index per opening: a faulty disk then stays slow."""
_STEPS_BACK_MAX: Final = 2


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """Numbers about the indexes of one log.

    Attributes:
        interval_bytes: Minimum distance between two entries.
        entries: Number of entries.
        size_bytes: Size of the index files.
        rebuilt: Number of wrong indexes rebuilt since the log was opened.
    """

    interval_bytes: int
    entries: int
    size_bytes: int
    rebuilt: int


class SegmentIndexes:
    """Finder of places in the segments of one log. Thread-safe.

    Args:
        filesystem: File operations of the log.
        descriptors: Cache of open files.
        mapped: Cache of index tables.
        salt: Salt of the log, which its chunks carry.
        interval_bytes: Minimum distance between entries of a rebuilt index.
        open_flags: Flags of `open` for segment files.
        is_owner: Whether to store a rebuilt index; another process keeps it in memory.

    Attributes:
        rebuilt: Number of rebuilt indexes.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        descriptors: Descriptors,
        mapped: MappedIndexes,
        salt: int,
        interval_bytes: int,
        open_flags: int,
        *,
        is_owner: bool,
    ) -> None:
        self.rebuilt = 0
        self._filesystem = filesystem
        self._descriptors = descriptors
        self._mapped = mapped
        self._salt = salt
        self._interval_bytes = interval_bytes
        self._open_flags = open_flags
        self._is_owner = is_owner
        self._lock = threading.Lock()
        self._is_closed = False
        self._rebuilds: dict[str, int] = {}

    def locate(self, segment: Segment, offset: int) -> int:
        """Return a chunk position at or before `offset`; the segment's start if none is known.

        O(log n). A chunk with a base offset <= `offset` is there, unless it is the start.

        Raises:
            OSError: The segment cannot be read.
        """
        for _ in range(2):
            entry = _at_or_before(self._tables(segment), offset)
            if entry is None:
                return segment.header_bytes
            if self._first_timestamp_ns(segment, entry) is not None:
                return entry.position
            if not self._rebuild(segment):
                break
        return segment.header_bytes

    def locate_time(self, segment: Segment, timestamp_ns: int) -> int:
        """Return a chunk position before which all records are older than a time.

        O(log n). The chunk itself proves it, because it begins before that time: append times never
        decrease within a segment.

        Raises:
            OSError: The segment cannot be read.
        """
        for _ in range(2):
            is_right = True
            entries = _before_time(self._tables(segment), timestamp_ns, segment.data_bytes)
            for steps, entry in enumerate(entries):
                first_ns = self._first_timestamp_ns(segment, entry)
                if first_ns is not None and first_ns < timestamp_ns:
                    return entry.position
                # The last entry before that time may itself point to a later chunk; then the entry
                # before it does not.
                is_right = first_ns is not None and steps < _STEPS_BACK_MAX
                if not is_right:
                    break
            if is_right or not self._rebuild(segment):
                break
        return segment.header_bytes

    def entries(self, segment: Segment) -> Iterator[IndexEntry]:
        """Yield all entries of a segment, in order. They are hints: their chunks are not checked.

        Raises:
            OSError: The segment cannot be read.
        """
        for table in self._tables(segment):
            yield from (entry for entry in table if entry.position < segment.data_bytes)

    def statistics(self, segments: tuple[Segment, ...]) -> IndexStatistics:
        """Count the entries of some segments, from the sizes of their files."""
        size_bytes = entries = 0
        for segment in segments:
            try:
                stored_bytes = self._filesystem.file_size(segment.index_path)
            except OSError:
                stored_bytes = 0
            size_bytes += stored_bytes
            entries += max(stored_bytes // INDEX_ENTRY_BYTES - 1, 0)
            entries += len(segment.index.tail) if segment.index is not None else 0
        return IndexStatistics(self._interval_bytes, entries, size_bytes, self.rebuilt)

    def evict(self, segment: Segment) -> None:
        """Remove a segment from the cache: it is being removed, or its file was replaced."""
        self._mapped.evict(self._filesystem, segment.index_path)

    def close(self) -> None:
        """Stop storing indexes; return once no store is in progress."""
        with self._lock:
            self._is_closed = True

    def _tables(self, segment: Segment) -> tuple[IndexTable, ...]:
        """Return the index tables of a segment, the stored one first."""
        active = segment.index
        if active is None:
            return (self._stored(segment, None) or self._stored_or_built(segment, None),)
        # Take the tail first: entries that leave it are in the file before.
        tail = active.tail
        if not active.stored_count:
            return (tail,)
        return (self._stored(segment, active) or self._stored_or_built(segment, active), tail)

    def _stored(self, segment: Segment, active: ActiveIndex | None) -> IndexTable | None:
        """Return the table of the index file, if it can be right."""
        path = segment.index_path
        known = self._mapped.get(self._filesystem, path)
        at_least = 0 if active is None else active.stored_count
        if known is not None and known.is_current and len(known) >= at_least:
            return known
        table = map_index(self._filesystem, path, self._salt, segment.base_offset)
        if table is None or len(table) < at_least:
            return None
        if not table.is_ordered(segment.header_bytes, segment.size_bytes):
            return None
        if segment.is_sealed and active is None and self._is_behind(segment, table):
            return None
        self._mapped.put(self._filesystem, path, table)
        return table

    def _is_behind(self, segment: Segment, table: IndexTable) -> bool:
        """Return whether a chunk after the last entry should have an entry too."""
        position = limit = segment.header_bytes
        if len(table):
            position = table[len(table) - 1].position
            limit = position + self._interval_bytes
        minimum = segment.base_offset
        with self._descriptors.borrow(
            self._filesystem, segment.path, self._open_flags
        ) as descriptor:
            scan = self._scan(segment, descriptor, self._interval_bytes)
            while position < segment.data_bytes:
                chunk = scan.header_at(position, minimum)
                if chunk is None:
                    return False  # damage: the reader finds out where to continue
                if position >= limit and not chunk.is_control:
                    return True
                minimum = chunk.end_offset
                position += chunk.chunk_bytes
        return False

    def _first_timestamp_ns(self, segment: Segment, entry: IndexEntry) -> int | None:
        """Return the first time of the chunk that an entry points to; None if it is not there.

        Compares only base offset and header, because most lookups need no more; a reader of the
        chunk checks all of it.
        """
        if entry.position + CHUNK_HEADER_BYTES > segment.data_bytes:
            return None
        with self._descriptors.borrow(
            self._filesystem, segment.path, self._open_flags
        ) as descriptor:
            data = self._filesystem.pread(descriptor, CHUNK_HEADER_BYTES, entry.position)
        if len(data) < CHUNK_HEADER_BYTES:
            return None
        found: tuple[int, ...] = CHUNK_PLACE.unpack_from(data)
        return found[4] if found[:4] == (CHUNK_MAGIC, KIND_DATA, self._salt, entry.offset) else None

    def _rebuild(self, segment: Segment) -> bool:
        """Rebuild an index that had a wrong entry; return whether that may help."""
        if self._rebuilds.get(segment.path.name, 0) >= REBUILDS_MAX:
            return False
        with self._lock:
            self._build(segment)
        return True

    def _stored_or_built(self, segment: Segment, active: ActiveIndex | None) -> IndexTable:
        """Return a new index for a segment whose stored index cannot be right."""
        with self._lock:
            # Another thread may have rebuilt it already.
            return self._stored(segment, active) or self._build(segment)

    def _build(self, segment: Segment) -> IndexTable:
        """Build the segment's index from its chunk headers; the owner also stores it."""
        self.rebuilt += 1
        self._rebuilds[segment.path.name] = self._rebuilds.get(segment.path.name, 0) + 1
        table = self._from_chunks(segment)
        if self._is_owner and segment.is_sealed and not self._is_closed:
            table = self._replaced(segment, table)
        self._mapped.put(self._filesystem, segment.index_path, table)
        return table

    def _replaced(self, segment: Segment, table: IndexTable) -> IndexTable:
        """Store a rebuilt table; return the table of the file."""
        header = index_header(self._salt, segment.base_offset)
        try:
            replace_index(self._filesystem, segment.index_path, table, header)
            if not self._filesystem.exists(segment.path):
                # Retention removed the segment during the rebuild, and its index before this one.
                self._filesystem.unlink(segment.index_path)
        except OSError:
            return table  # it only costs memory
        return (
            map_index(self._filesystem, segment.index_path, self._salt, segment.base_offset)
            or table
        )

    def _from_chunks(self, segment: Segment) -> IndexTable:
        index = ActiveIndex(segment.base_offset, self._interval_bytes)
        with self._descriptors.borrow(
            self._filesystem, segment.path, self._open_flags
        ) as descriptor:
            scan = self._scan(segment, descriptor, WINDOW_BYTES)
            header = decode_segment_header(scan.read(0, SEGMENT_HEADER_BYTES_MAX), segment.path)
            add_chunks(
                index,
                scan,
                segment.header_bytes,
                segment.data_bytes,
                segment.base_offset,
                header.previous_timestamp_ns if header is not None else 0,
            )
        return index.tail

    def _scan(self, segment: Segment, descriptor: int, window_bytes: int) -> SegmentScan:
        return SegmentScan(
            self._filesystem, descriptor, segment.data_bytes, self._salt, window_bytes
        )


def add_chunks(
    index: ActiveIndex,
    scan: SegmentScan,
    position: int,
    end: int,
    minimum_offset: int,
    max_timestamp_ns: int,
) -> None:
    """Add the data chunks from a position on to an index, by their headers; skip damage.

    Args:
        index: Index to add to.
        scan: Scan of the segment.
        position: Start of a chunk.
        end: Position where the chunks end.
        minimum_offset: Base offset of that chunk, or less.
        max_timestamp_ns: Greatest append time before that chunk.
    """
    sums = SegmentSummary(minimum_offset, minimum_offset, max_timestamp_ns)
    found: int | None = position
    while found is not None and found < end:
        chunk = scan.header_at(found, sums.end_offset)
        if chunk is None:
            found = scan.find_chunk(found, sums.end_offset)
            continue
        if not chunk.is_control:
            index.add(chunk.base_offset, found, sums.time_before(chunk.first_timestamp_ns))
        sums.add(chunk)
        found += chunk.chunk_bytes


def _at_or_before(tables: tuple[IndexTable, ...], offset: int) -> IndexEntry | None:
    for table in reversed(tables):
        at = table.at_or_before(offset)
        if at >= 0:
            return table[at]
    return None


def _before_time(
    tables: tuple[IndexTable, ...], timestamp_ns: int, end_position: int
) -> Iterator[IndexEntry]:
    """Yield the entries with only earlier records before them, last one first."""
    for table in reversed(tables):
        for at in range(table.before_time(timestamp_ns), -1, -1):
            # An entry after the durable end is right, but this reader must not use it.
            if table[at].position < end_position:
                yield table[at]
