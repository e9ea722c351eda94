"""The walk over chunks where the kernel is not compiled: vectors of chunks, vectors of records.

Does what `appendlog.layout.records.walk_chunks` does, to the last number: tests say so. Only
the way from one chunk to the next is a loop, and that from one record to the next in chunks
whose records are not all of one size. CRCs are asked for many at once.
"""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from appendlog.layout import crc
from appendlog.layout.format import (
    CHUNK_BYTES_MAX,
    CHUNK_CRC_START,
    CHUNK_HEADER_BYTES,
    CHUNK_MAGIC,
    CHUNK_MAGIC_BYTES,
    CHUNK_PREFIX_BYTES,
    FLAG_COMPRESSED,
    FORMAT_VERSION,
    KIND_CONTROL,
    OFFSET_MAX,
)
from appendlog.layout.records import (
    WALK_COMPRESSED,
    WALK_END,
    WALK_FAULT,
    WALK_SHORT,
    ReadableBuffer,
)
from appendlog.spark.decoding.chunk_vectors import Chunks, first_true, headers_at
from appendlog.spark.decoding.octets import Octets
from appendlog.spark.decoding.record_vectors import ChunkRecords, records_of

_FRONT: Final = Struct("<I4xI8xI")  # magic, length, record_count
_CHUNKS_MAX: Final = 4096
_ZERO: Final = np.zeros(1, np.int64)


def walk_chunks(
    data: ReadableBuffer,
    position: int,
    end: int,
    salt: int,
    from_offset: int,
    until_offset: int,
    max_records: int,
    max_bytes: int,
    offsets: array[int],
    timestamps_ns: array[int],
    positions: array[int],
    lengths: array[int],
) -> tuple[int, int, int, int, int]:
    """Note where the records of `data[position:end]` lie. See `appendlog.layout.records`."""
    octets = np.frombuffer(data, np.uint8)
    if position < 0 or end > len(octets):
        raise ValueError(f"[{position}, {end}) is not inside {len(octets)} bytes")
    places: list[NDArray[Any]] = []
    places += (np.frombuffer(offsets, np.int64), np.frombuffer(timestamps_ns, np.int64))
    places += (np.frombuffer(positions, np.uint32), np.frombuffer(lengths, np.uint32))
    room = min(max_records, *map(len, places))
    walk = _Walk(octets, position, end, salt, from_offset, until_offset, room, max_bytes)
    while not walk.is_done:
        walk.go_on(places)
    return walk.status, walk.position, walk.next_offset, walk.count, walk.message_bytes


class _Walk:
    """One walk, from one group of chunks to the next; all but `places` as for `walk_chunks`."""

    def __init__(
        self,
        octets: Octets,
        position: int,
        end: int,
        salt: int,
        from_offset: int,
        until_offset: int,
        room: int,
        max_bytes: int,
    ) -> None:
        self.status = WALK_END
        self.position = position
        self.next_offset = from_offset
        self.count = 0
        self.message_bytes = 0
        self._is_stopped = False
        self._octets = octets
        self._view = octets.data
        self._end = end
        self._salt = salt
        self._from_offset = from_offset
        self._until_offset = until_offset
        self._room = room
        self._max_bytes = max_bytes
        self._previous_end = 0

    @property
    def is_done(self) -> bool:
        """Whether a limit is met, the end, or something that stops a walk."""
        return (
            self._is_stopped
            or self.position >= self._end
            or self.count >= self._room
            or self.message_bytes >= self._max_bytes
            or self.next_offset >= self._until_offset
        )

    def go_on(self, places: list[NDArray[Any]]) -> None:
        """Walk some chunks; the numbers of their records go into the places."""
        starts, stop_status = self._look_ahead()
        chunks, stop_status = self._plausible(starts, stop_status)
        whole = self._whole(chunks)
        if whole < len(chunks.starts):
            chunks, stop_status = chunks.first(whole), WALK_FAULT
        elif stop_status == WALK_COMPRESSED:
            chunks = chunks.first(whole - 1)
        records = records_of(self._octets, chunks, self._from_offset)
        if len(records.ends) < len(chunks.starts):
            chunks, stop_status = chunks.first(len(records.ends)), WALK_FAULT
        self._take(chunks, records, places)
        if stop_status != WALK_END and not self.is_done:
            self.status = stop_status
            self._is_stopped = True

    def _look_ahead(self) -> tuple[list[int], int]:
        """Return where chunks start, and behind the last; and why there are no more of them."""
        starts = [self.position]
        at, end = self.position, self._end
        room = self._room - self.count
        stop_at = at + self._max_bytes - self.message_bytes
        front_at = _FRONT.unpack_from
        while at < end and at < stop_at and room > 0 and len(starts) <= _CHUNKS_MAX:
            if at + _FRONT.size > end:
                return starts, self._fault_or_short(at)
            magic, length, count = front_at(self._view, at)
            chunk_bytes = CHUNK_PREFIX_BYTES + length
            if (
                magic != CHUNK_MAGIC
                or not CHUNK_HEADER_BYTES <= chunk_bytes <= CHUNK_BYTES_MAX
                or chunk_bytes > end - at
            ):
                return starts, self._fault_or_short(at)
            at += chunk_bytes
            starts.append(at)
            room -= count
        return starts, WALK_END

    def _fault_or_short(self, at: int) -> int:
        """Tell what stands where no whole chunk does."""
        front = bytes(self._view[at : min(at + CHUNK_PREFIX_BYTES, self._end)])
        if not CHUNK_MAGIC_BYTES.startswith(front[:4]):
            return WALK_FAULT
        if len(front) < CHUNK_PREFIX_BYTES:
            return WALK_SHORT
        chunk_bytes = CHUNK_PREFIX_BYTES + int.from_bytes(front[8:], "little")
        return WALK_SHORT if CHUNK_HEADER_BYTES <= chunk_bytes <= CHUNK_BYTES_MAX else WALK_FAULT

    def _plausible(self, places: list[int], status: int) -> tuple[Chunks, int]:
        """Return the chunks up to the first that cannot be this log's, is packed, or too far."""
        bounds = np.array(places, np.int64)
        headers = headers_at(self._octets, bounds[:-1])
        base = headers["base_offset"]
        is_control = headers["kind"] == KIND_CONTROL
        end_offsets = base + np.where(is_control, 0, headers["last_offset_delta"] + np.int64(1))
        before = np.concatenate(([self._previous_end], end_offsets[:-1]))[: len(base)]
        is_ours = (
            (headers["salt"] == self._salt)
            & (headers["version"] <= FORMAT_VERSION)
            & (headers["kind"] <= KIND_CONTROL)
            & (headers["flags"] <= 1 + 2 * headers["version"].astype(np.int64))
            & (base >= before)
            & (base <= OFFSET_MAX)
        )
        count = first_true(~is_ours)
        status = WALK_FAULT if count < len(base) else status
        needed = int(np.searchsorted(before[:count], self._until_offset))
        if needed < count:
            count, status = needed, WALK_END
        is_passed = is_control | (end_offsets <= self._from_offset)
        packed = first_true(~is_passed[:count] & (headers["flags"][:count] & FLAG_COMPRESSED != 0))
        if packed < count:
            count, status = packed + 1, WALK_COMPRESSED
        chunks = Chunks(bounds[:-1], bounds[1:], headers, end_offsets, is_passed)
        return chunks.first(count), status

    def _whole(self, chunks: Chunks) -> int:
        """Return how many chunks have the CRC that they say, up to the first that has not."""
        starts, stops = (chunks.starts + CHUNK_CRC_START).tolist(), chunks.stops.tolist()
        if crc.IS_FOLDED:
            from appendlog.layout.folded_crc import crc32c_each

            sums = crc32c_each(self._octets, starts, stops)
        else:
            view, sum_of = self._view, crc.crc32c
            sums = [sum_of(view[at:to]) for at, to in zip(starts, stops, strict=True)]
        return first_true(chunks.headers["crc"] != np.array(sums, np.uint32))

    def _take(self, chunks: Chunks, records: ChunkRecords, places: list[NDArray[Any]]) -> None:
        """Note records up to a limit, and go on behind the last chunk that is used up."""
        room, bytes_left = self._room - self.count, self._max_bytes - self.message_bytes
        cut = min(
            room,
            int(np.searchsorted(records.offsets, self._until_offset)),
            # The first record that begins when the bytes are used up.
            int(np.searchsorted(records.bytes_before[:-1], bytes_left)),
        )
        before = np.concatenate((_ZERO, records.ends))[: len(records.ends)]
        # A chunk is begun if no limit is met before it.
        is_begun = (before < room) & (records.bytes_before[before] < bytes_left)
        begun = first_true(~is_begun)
        used = first_true(records.ends[:begun] > cut)
        taken = cut if used < begun else int(records.ends[begun - 1]) if begun else 0
        if used:
            self._previous_end = int(chunks.end_offsets[used - 1])
            self.next_offset = max(self.next_offset, self._previous_end)
            self.position = int(chunks.stops[used - 1])
        if used < begun:
            self.next_offset = min(int(records.offsets[cut]), self._until_offset)
            self._is_stopped = True
        columns = (records.offsets, records.timestamps_ns, records.positions, records.lengths)
        for place, column in zip(places, columns, strict=True):
            place[self.count : self.count + taken] = column[:taken]
        self.count += taken
        self.message_bytes += int(records.bytes_before[taken])
