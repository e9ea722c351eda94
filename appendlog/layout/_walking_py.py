"""Walking kernel: finds the records of many chunks, adds up chunks, copies messages.

One source, two builds. The interpreted build uses slices and Struct. Cython compiles the same
source under the name `_walking_c` (types in `_walking_c.pxd`): there, indexing octets is pointer
access. The loads that differ are in `_memory_py` and `_memory_c.pxd`. Both builds must give the
same result for any octets: tests/parity checks it.

Pure: no I/O, no logging, no state. Layouts: docs/log-format.md, sections 3 to 6.
"""

from __future__ import annotations

from array import array
from mmap import mmap

from appendlog.layout import _memory_py as memory
from appendlog.layout.crc import crc32c

ReadableBuffer = bytes | memoryview | mmap
Octets = bytes | memoryview

WALK_END = 0
WALK_SHORT = 1
WALK_FAULT = 2
WALK_COMPRESSED = 3
SUMS = 11
SUM_BASE_OFFSET = 8
SUM_FIRST_TIMESTAMP = 9

_OFFSET_MAX = (1 << 62) - 1
_CHUNK_BYTES_MAX = 1 << 30


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
    """Note the places of the records of `data[position:end]`. See `appendlog.layout.records`."""
    view = memoryview(data)
    octets = memory.octets_of(data)
    if position < 0 or end > len(view):
        raise ValueError(f"[{position}, {end}) is not inside {len(view)} bytes")
    room = min(max_records, len(offsets), len(timestamps_ns), len(positions), len(lengths))
    offset_places, timestamp_places = offsets, timestamps_ns
    position_places, length_places = positions, lengths
    next_offset = from_offset
    previous_end = 0
    count = 0
    room_bytes = max_bytes
    while position < end and count < room and room_bytes > 0 and next_offset < until_offset:
        stop = _chunk_stop(octets, position, end)
        if stop < 0:
            return -stop, position, next_offset, count, max_bytes - room_bytes
        if not _is_plausible(octets, position, salt, previous_end) or crc32c(
            view[position + 8 : stop]
        ) != memory.u32(octets, position + 4):
            return WALK_FAULT, position, next_offset, count, max_bytes - room_bytes
        base_offset = memory.i64(octets, position + 24)
        previous_end = _end_offset(octets, position)
        if octets[position + 13] or previous_end <= from_offset:
            # A control chunk has no records: the log continues at its base offset.
            if previous_end > next_offset:
                next_offset = previous_end
            position = stop
            continue
        if octets[position + 14] & 2:
            return WALK_COMPRESSED, position, next_offset, count, max_bytes - room_bytes
        at = position + 88 + 16 * (octets[position + 14] & 1)
        if not _records_fit(octets, position, at, stop):
            return WALK_FAULT, position, next_offset, count, max_bytes - room_bytes
        first_timestamp_ns = memory.i64(octets, position + 48)
        while at < stop:
            size, delta, timestamp_delta = memory.record_front(octets, at)
            offset = base_offset + delta
            if offset >= from_offset:
                if count >= room or room_bytes <= 0 or offset >= until_offset:
                    return (
                        WALK_END,
                        position,
                        min(offset, until_offset),
                        count,
                        max_bytes - room_bytes,
                    )
                offset_places[count] = offset
                timestamp_places[count] = first_timestamp_ns + timestamp_delta
                position_places[count] = at + 12
                length_places[count] = size - 8
                count += 1
                room_bytes -= size - 8
            at += 4 + size
        next_offset = previous_end
        position = stop
    return WALK_END, position, next_offset, count, max_bytes - room_bytes


def sum_chunks(
    data: ReadableBuffer,
    position: int,
    end: int,
    begin_before: int,
    salt: int,
    minimum_offset: int,
    sums: array[int],
) -> int:
    """Add up the data chunks of `data[position:end]`. See `appendlog.layout.records`."""
    view = memoryview(data)
    octets = memory.octets_of(data)
    if position < 0 or end > len(view) or len(sums) < SUMS:
        raise ValueError(f"[{position}, {end}) is not inside {len(view)} bytes, {len(sums)} sums")
    places = sums
    while position < end and position < begin_before:
        stop = _chunk_stop(octets, position, end)
        if (
            stop < 0
            or octets[position + 13]
            or not _is_plausible(octets, position, salt, minimum_offset)
            or crc32c(view[position + 8 : stop]) != memory.u32(octets, position + 4)
        ):
            break
        _add_up(octets, position, places)
        minimum_offset = places[10]
        position = stop
    return position


def cut_messages(
    data: ReadableBuffer, positions: array[int], lengths: array[int], start: int, stop: int
) -> list[bytes]:
    """Return copies of the messages `start` to `stop`. See `appendlog.layout.records`."""
    view = memoryview(data)
    octets = memory.octets_of(data)
    at_places, size_places = positions, lengths
    end = len(view)
    if start < 0 or stop > len(positions) or stop > len(lengths):
        raise ValueError(f"[{start}, {stop}) is not inside {len(positions)} messages")
    messages: list[bytes] = []
    for index in range(start, stop):
        at = at_places[index]
        size = size_places[index]
        if at + size > end:
            raise ValueError(f"message at {at} of {size} bytes is not inside {end} bytes")
        messages.append(memory.copy_of(octets, at, size))
    return messages


def _add_up(octets: Octets, position: int, sums: array[int]) -> None:
    """Add the sums of one valid data chunk; the order is that of `sum_chunks`."""
    last_timestamp_ns = memory.i64(octets, position + 56)
    min_expiry_ns = memory.i64(octets, position + 64)
    if sums[0] == 0:
        sums[SUM_BASE_OFFSET] = memory.i64(octets, position + 24)
        sums[SUM_FIRST_TIMESTAMP] = memory.i64(octets, position + 48)
    sums[10] = _end_offset(octets, position)
    sums[0] += 1
    sums[1] += memory.u32(octets, position + 20)
    sums[2] += memory.u32(octets, position + 36)
    sums[3] += memory.i64(octets, position + 40)
    if last_timestamp_ns > sums[4]:
        sums[4] = last_timestamp_ns
    if min_expiry_ns:
        if sums[5] == 0 or min_expiry_ns < sums[5]:
            sums[5] = min_expiry_ns
        if memory.i64(octets, position + 72) > sums[6]:
            sums[6] = memory.i64(octets, position + 72)
    sums[7] |= memory.i64(octets, position + 80)


def _chunk_stop(octets: Octets, position: int, end: int) -> int:
    """Return where the chunk at `position` ends, or minus WALK_SHORT or WALK_FAULT."""
    room = end - position
    if not _is_magic(octets, position, min(room, 4)):
        return -WALK_FAULT
    if room < 12:
        return -WALK_SHORT
    length = memory.u32(octets, position + 8)
    if length < 76 or length > _CHUNK_BYTES_MAX - 12:
        return -WALK_FAULT
    return position + 12 + length if length <= room - 12 else -WALK_SHORT


def _is_magic(octets: Octets, position: int, size: int) -> bool:
    """Return whether `size` octets, at most four, are the start of a chunk's magic."""
    return (
        size > 0
        and octets[position] == 0x41
        and (size < 2 or octets[position + 1] == 0x51)
        and (size < 3 or octets[position + 2] == 0x4C)
        and (size < 4 or octets[position + 3] == 0x43)
    )


def _is_plausible(octets: Octets, position: int, salt: int, minimum_offset: int) -> bool:
    """Return whether a whole chunk can be of this log, at or after `minimum_offset`."""
    base_offset = memory.i64(octets, position + 24)
    return (
        memory.u32(octets, position + 16) == salt
        and minimum_offset <= base_offset <= _OFFSET_MAX
        and octets[position + 12] <= 1
        and octets[position + 13] <= 1
        # Version 0 has one flag, version 1 has two.
        and octets[position + 14] <= 1 + 2 * octets[position + 12]
        and octets[position + 15] == 0
    )


def _end_offset(octets: Octets, position: int) -> int:
    """Return the offset after a chunk; for a control chunk, where the log continues."""
    base_offset = memory.i64(octets, position + 24)
    if octets[position + 13]:
        return base_offset
    return base_offset + memory.u32(octets, position + 32) + 1


def _records_fit(octets: Octets, position: int, at: int, stop: int) -> bool:
    """Return whether the records in `[at, stop)` agree with the chunk's header."""
    count = memory.u32(octets, position + 20)
    last_delta = memory.u32(octets, position + 32)
    previous_delta = -1
    while stop - at >= 12:
        size, delta, _ = memory.record_front(octets, at)
        if size < 15 or size > stop - at - 4 or delta <= previous_delta:
            return False
        previous_delta = delta
        count -= 1
        at += 4 + size
    return at == stop and count == 0 and previous_delta == last_delta
