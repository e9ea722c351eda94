"""Reading records of one segment from an offset on, past damage if there is any.

Safe beside an append: the bytes below `Segment.data_bytes` never change, and nothing is
read past them. Reads with pread, not through a mapping, so that retention may remove the
file meanwhile and a failing disk is an error and not a signal.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from appendlog.files.descriptors import Borrowed, Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.layout.format import (
    CHUNK_BYTES_MAX,
    CHUNK_HEADER_BYTES,
    CHUNK_PREFIX,
    CHUNK_PREFIX_BYTES,
)
from appendlog.layout.records import WALK_END, WALK_FAULT, WALK_SHORT
from appendlog.segments.chunk_walk import walk
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment

WINDOW_BYTES_MIN: Final = 64 << 10
WINDOW_BYTES_MAX: Final = 1 << 20


@dataclass(slots=True)
class ReadResult:
    """Records of a log, as parallel lists.

    Attributes:
        offsets: Strictly increasing.
        messages: As `appendlog.layout.message` draws them; copies, the caller's own.
        next_offset: Where to go on. Offsets in `[asked, next_offset)` that are not in
            `offsets` are not in the log: never written, removed, or lost.
        timestamps_ns: Append times.
        lost: Offsets `[start, end)` of damage that this read had to skip.
        read_bytes: Bytes read from files.
    """

    offsets: list[int] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    next_offset: int = 0
    timestamps_ns: list[int] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    read_bytes: int = 0


class SegmentReader:
    """Reads segments of one log.

    Args:
        filesystem: All file calls go through it.
        descriptors: Open files.
        salt: Of the log.
        open_flags: Of `open`.
        on_damage: Called with (path, position, next offset, reason) at each damaged place,
            before it is skipped; may raise to stop there.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        descriptors: Descriptors,
        salt: int,
        open_flags: int,
        on_damage: Callable[[Path, int, int, str], None],
    ) -> None:
        self._filesystem = filesystem
        self._descriptors = descriptors
        self._salt = salt
        self._open_flags = open_flags
        self._on_damage = on_damage

    def checked(self, segment: Segment, position: int, offset: int) -> int:
        """Return `position` if a chunk at or before `offset` starts there, else the first.

        Indexes are hints: one that is stale or damaged must only cost time.
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

    def read(
        self,
        segment: Segment,
        position: int,
        until_offset: int,
        max_records: int,
        max_bytes: int,
        result: ReadResult,
        likely_end: int = 0,
    ) -> int:
        """Add records at or after `result.next_offset` to `result`; move its next offset.

        Stops at `until_offset`, at a limit or at the segment's end.

        Args:
            segment: Where to read.
            position: A chunk start at or before the next offset, or the segment's start.
            until_offset: Exclusive.
            max_records: Of `result` in all.
            max_bytes: Of this segment's messages; one record always fits.
            result: Filled in.
            likely_end: Where `until_offset` is thought to stand; nothing behind it is read
                unless it turns out not to.

        Returns:
            The position at which to go on in this segment.

        Raises:
            OSError: The file is gone or cannot be read.
        """
        limit = segment.data_bytes
        asked = result.next_offset
        window = min(max(max_bytes + CHUNK_HEADER_BYTES, WINDOW_BYTES_MIN), WINDOW_BYTES_MAX)
        needed = window
        with self._borrow(segment) as descriptor:
            while (
                position < limit
                and result.next_offset < until_offset
                and len(result.offsets) < max_records
                and max_bytes > 0
            ):
                likely = likely_end - position if position < likely_end else limit
                size = min(needed, limit - position, likely)
                is_cut = size < limit - position
                needed = window
                data = self._filesystem.read_all(descriptor, size, position)
                result.read_bytes += len(data)
                known = len(result.messages)
                status, walked, result.next_offset = walk(
                    data,
                    self._salt,
                    result.next_offset,
                    until_offset,
                    max_records - known,
                    max_bytes,
                    result.offsets,
                    result.timestamps_ns,
                    result.messages,
                )
                max_bytes -= sum(map(len, result.messages[known:]))
                position += walked
                if status == WALK_END and walked < len(data):
                    break  # a limit was met inside the window
                if status == WALK_SHORT and is_cut and len(data) == size:
                    if not walked:
                        needed, likely_end = self._chunk_bytes(data), 0
                elif status in (WALK_SHORT, WALK_FAULT):
                    # A chunk that was walked past ended at the next offset; before that,
                    # only the segment's base is known.
                    minimum = result.next_offset if result.next_offset > asked else 0
                    minimum = max(minimum, segment.base_offset)
                    position = self._skip_damage(segment, descriptor, position, minimum, result)
        return position

    def _borrow(self, segment: Segment) -> Borrowed:
        return self._descriptors.borrow(self._filesystem, segment.path, self._open_flags)

    def _chunk_bytes(self, data: bytes) -> int:
        if len(data) < CHUNK_PREFIX_BYTES:
            return WINDOW_BYTES_MIN
        length: int = CHUNK_PREFIX.unpack_from(data)[2]
        return min(CHUNK_PREFIX_BYTES + length, CHUNK_BYTES_MAX)

    def _skip_damage(
        self,
        segment: Segment,
        descriptor: int,
        position: int,
        minimum_offset: int,
        result: ReadResult,
    ) -> int:
        """Return where reading can go on behind the damage at `position`."""
        self._on_damage(segment.path, position, result.next_offset, "no valid chunk")
        limit = segment.data_bytes
        scan = SegmentScan(self._filesystem, descriptor, limit, self._salt)
        found = scan.find_chunk(position, minimum_offset)
        chunk = None if found is None else scan.chunk_at(found, minimum_offset)
        end = segment.end_offset if chunk is None else chunk.base_offset
        if result.next_offset < end:
            result.lost.append((result.next_offset, end))
            result.next_offset = end
        return limit if found is None else found
