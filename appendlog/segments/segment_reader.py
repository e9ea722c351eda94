"""Reading records of one segment from an offset on; skips damage.

Safe during an append: the bytes below `Segment.data_bytes` never change, and nothing after them is
read. Safe during retention: a file that is unlinked stays readable for every reader that has it
open or mapped.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appendlog.files.descriptors import Borrowed, Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.files.mappings import Mappings
from appendlog.layout.chunk import ChunkHeader
from appendlog.layout.format import (
    CHUNK_BYTES_MAX,
    CHUNK_HEADER_BYTES,
    CHUNK_PREFIX,
    CHUNK_PREFIX_BYTES,
)
from appendlog.layout.large_chunk import LARGE_MESSAGE_BYTES
from appendlog.layout.records import (
    WALK_END,
    WALK_FAULT,
    WALK_SHORT,
)
from appendlog.segments.chunk_walk import ChunkWalk, walk
from appendlog.segments.damaged_range import DamagedRange, damage_reason
from appendlog.segments.large_record import FRONT_BYTES_MAX, find_large_record
from appendlog.segments.read_result import ReadResult, Records
from appendlog.segments.read_windows import ReadWindow, read_window
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment

_HEADERS_BYTES: Final = 4 << 10
"""Bytes to read at once for headers only: many headers of small chunks, one of a large chunk."""
WINDOW_BYTES_MIN: Final = 64 << 10
WINDOW_BYTES_MAX: Final = 1 << 20


@dataclass(slots=True)
class ReadRequest:
    """A read of one segment, and its progress.

    Attributes:
        segment: Segment to read.
        position: Start of a chunk at or before the result's next offset, or the segment's start.
            Afterwards: position at which to continue.
        until_offset: End offset, exclusive.
        max_records: Number of records that may still be added.
        max_bytes: Message bytes that may still be added; one record always fits.
        result: Result, which the read fills in.
        likely_end: Estimated position of `until_offset`; the read stops there unless the estimate
            turns out to be wrong.
        max_windows: Maximum number of pieces of the file with records to read.
        whole_chunks: Whether no chunk may be cut; then one chunk may exceed `max_bytes`. A large
            message that is alone in its chunk gets a buffer of its own: if the chunk is longer than
            a window, or if `large_bytes` is not 0.
        large_bytes: Bytes of such messages, one behind the other, that are read as one piece; they
            do not count for `max_bytes`. 0: one, and a window is read first.
        asked_offset: Offset where the read began.
        needed_bytes: Number of bytes to read at once, if a chunk is longer than a window.
    """

    segment: Segment
    position: int
    until_offset: int
    max_records: int
    max_bytes: int
    result: ReadResult
    likely_end: int = 0
    max_windows: int = 1 << 62
    whole_chunks: bool = False
    large_bytes: int = 0
    asked_offset: int = 0
    needed_bytes: int = 0

    def __post_init__(self) -> None:
        self.asked_offset = self.result.next_offset

    @property
    def is_done(self) -> bool:
        """Whether the read has reached a limit or the end."""
        return (
            self.position >= self.segment.data_bytes
            or self.result.next_offset >= self.until_offset
            or self.max_records <= 0
            or self.max_bytes <= 0
            or self.max_windows <= 0
        )

    @property
    def window_bytes(self) -> int:
        """Number of bytes to read next."""
        rest = self.segment.data_bytes - self.position
        likely = self.likely_end - self.position if self.position < self.likely_end else rest
        # Records are longer than their messages: an eighth more is usually enough.
        wanted = self.max_bytes + self.max_bytes // 8 + CHUNK_HEADER_BYTES
        wanted = min(max(wanted, WINDOW_BYTES_MIN), WINDOW_BYTES_MAX)
        return min(self.needed_bytes or wanted, rest, likely)

    def take(self, found: ChunkWalk, walked: int) -> None:
        """Add the records found in a window; continue after the part that was walked."""
        self.position += walked
        self.result.next_offset = found.next_offset
        if found.parts:
            self.result.add(found.parts, found.record_count, found.message_bytes)
            self.max_records = found.max_records
            self.max_bytes = found.max_bytes
            self.max_windows -= 1

    def take_record(self, records: Records, header: ChunkHeader) -> None:
        """Add the only record of a chunk; continue after the chunk."""
        message_bytes = records.lengths[0]
        self.position += header.chunk_bytes
        self.result.next_offset = header.end_offset
        self.result.add([records], 1, message_bytes)
        self.max_records -= 1
        self.large_bytes -= message_bytes
        if self.large_bytes <= 0:
            self.max_windows = 0


class SegmentReader:
    """Reader of the segments of one log.

    Args:
        filesystem: File operations of the log.
        descriptors: Cache of open files.
        salt: Salt of the log, which its chunks carry.
        open_flags: Flags of `open`.
        on_damage: Called with (path, position, next offset, reason) at each damaged place before
            the reader skips it; may raise to stop there.
        mappings: Cache of mappings for sealed segments; None copies all reads.

    Attributes:
        mapped_count: How often a part of a segment was mapped.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        descriptors: Descriptors,
        salt: int,
        open_flags: int,
        on_damage: Callable[[Path, int, int, str], None],
        mappings: Mappings | None = None,
    ) -> None:
        self._filesystem = filesystem
        self._descriptors = descriptors
        self._salt = salt
        self._open_flags = open_flags
        self._on_damage = on_damage
        self._mappings = mappings
        self.mapped_count = 0
        self._count_lock = threading.Lock()

    def checked(self, segment: Segment, position: int, offset: int) -> int:
        """Return `position` if a chunk at or before `offset` starts there, else the first position.

        Indexes are hints: a stale or damaged one must only cost time.
        """
        if position <= segment.header_bytes:
            return segment.header_bytes
        with self._borrow(segment) as descriptor:
            scan = SegmentScan(
                self._filesystem,
                descriptor,
                segment.data_bytes,
                self._salt,
                window_bytes=CHUNK_HEADER_BYTES,
            )
            chunk = scan.header_at(position, segment.base_offset)
        return position if chunk and chunk.base_offset <= offset else segment.header_bytes

    def skip_earlier(self, segment: Segment, position: int, timestamp_ns: int) -> tuple[int, int]:
        """Skip chunks that end before a time, by their headers.

        A header is trusted if the next one continues it. This may skip a damaged chunk too: it
        holds no record that could be found.

        Args:
            segment: Segment to read.
            position: Start of a chunk, or of the segment.
            timestamp_ns: Nanoseconds since 1970 UTC.

        Returns:
            Position to read from, and the length of the chunk there, 0 if unknown.

        Raises:
            OSError: The segment cannot be read.
        """
        with self._borrow(segment) as descriptor:
            scan = SegmentScan(
                self._filesystem, descriptor, segment.data_bytes, self._salt, _HEADERS_BYTES
            )
            chunk = scan.header_at(position, segment.base_offset)
            while chunk is not None and chunk.last_timestamp_ns < timestamp_ns:
                follows = position + chunk.chunk_bytes
                successor = scan.header_at(follows, chunk.end_offset)
                if successor is None or successor.base_offset != chunk.end_offset:
                    break
                position, chunk = follows, successor
        return position, 0 if chunk is None else chunk.chunk_bytes

    def read(self, request: ReadRequest) -> int:
        """Add records at or after the result's next offset to the result; advance its next offset.

        Returns:
            The position at which to continue in this segment.

        Raises:
            OSError: The file is missing or cannot be read.
        """
        with self._borrow(request.segment) as descriptor:
            while not request.is_done:
                if not self._read_large_record(request, descriptor):
                    self._read_window(request, descriptor)
        return request.position

    def _read_window(self, request: ReadRequest, descriptor: int) -> None:
        segment, result = request.segment, request.result
        size = request.window_bytes
        window = read_window(
            self._filesystem, self._mappings, segment, descriptor, request.position, size
        )
        window_bytes = window.end - window.start
        result.read_bytes += window_bytes
        if window.is_new_mapping:
            with self._count_lock:
                self.mapped_count += 1
        is_cut = size < segment.data_bytes - request.position and window_bytes == size
        request.needed_bytes = 0
        found = walk(
            window.buffer,
            window.start,
            window.end,
            self._salt,
            result.next_offset,
            request.until_offset,
            request.max_records,
            request.max_bytes,
            whole_chunks=request.whole_chunks,
        )
        walked = found.position - window.start
        request.take(found, walked)
        if found.status == WALK_END and walked < window_bytes:
            request.max_records = 0  # the walk reached a limit inside the window
        elif found.status == WALK_SHORT and is_cut:
            front = bytes(window.buffer[window.start : window.start + FRONT_BYTES_MAX])
            if not walked and not self._take_large_record(request, front, descriptor):
                request.needed_bytes = _chunk_bytes(window)
                request.likely_end = 0
        elif found.status in (WALK_SHORT, WALK_FAULT):
            self._skip_damage(request, descriptor)

    def _read_large_record(self, request: ReadRequest, descriptor: int) -> bool:
        """Add the record of the next chunk if it is large and large ones are wanted.

        Otherwise its window would be read first, and then what is in it again.
        """
        if request.large_bytes <= 0 or request.needed_bytes:
            return False
        front = self._filesystem.read_all(descriptor, FRONT_BYTES_MAX, request.position)
        request.result.read_bytes += len(front)
        return self._take_large_record(request, front, descriptor)

    def _take_large_record(self, request: ReadRequest, front: bytes, descriptor: int) -> bool:
        """Add the record whose chunk begins with `front`; return False to walk over the chunk."""
        if not request.whole_chunks:
            return False
        found = find_large_record(front, self._salt)
        if (
            found is None
            or found.header.chunk_bytes <= min(request.window_bytes, LARGE_MESSAGE_BYTES)
            or not request.result.next_offset <= found.offset < request.until_offset
            or request.position + found.header.chunk_bytes > request.segment.data_bytes
        ):
            return False
        records = found.read(self._filesystem, descriptor, request.position)
        if records is None:
            return False
        request.result.read_bytes += found.message_bytes
        request.take_record(records, found.header)
        return True

    def _borrow(self, segment: Segment) -> Borrowed:
        return self._descriptors.borrow(self._filesystem, segment.path, self._open_flags)

    def _skip_damage(self, request: ReadRequest, descriptor: int) -> None:
        """Continue after the damage at the request's position."""
        segment, result = request.segment, request.result
        # The next offset is the end of a chunk that was walked. Before the first such chunk, only
        # the segment's base offset is known.
        minimum = result.next_offset if result.next_offset > request.asked_offset else 0
        minimum = max(minimum, segment.base_offset)
        self._on_damage(segment.path, request.position, result.next_offset, "no valid chunk")
        scan = SegmentScan(self._filesystem, descriptor, segment.data_bytes, self._salt)
        found = scan.find_chunk(request.position, minimum)
        chunk = None if found is None else scan.chunk_at(found, minimum)
        end = segment.end_offset if chunk is None else chunk.base_offset
        end_position = segment.data_bytes if found is None else found
        damage = DamagedRange(
            segment.path.name,
            request.position,
            end_position,
            damage_reason(scan, request.position, minimum, segment.data_bytes),
            result.next_offset,
            max(result.next_offset, end),
        )
        result.damaged = (*result.damaged, damage)
        if result.next_offset < end:
            result.lost.append((result.next_offset, end))
            result.next_offset = end
        request.position = end_position


def _chunk_bytes(window: ReadWindow) -> int:
    """Return the length that the chunk at the beginning of a window states."""
    if window.end - window.start < CHUNK_PREFIX_BYTES:
        return WINDOW_BYTES_MIN
    length: int = CHUNK_PREFIX.unpack_from(window.buffer, window.start)[2]
    return min(CHUNK_PREFIX_BYTES + length, CHUNK_BYTES_MAX)
