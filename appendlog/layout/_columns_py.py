"""Columns kernel: writes messages of a read into the buffers of Arrow columns.

One source, two builds, as in `_walking_py`. It makes two passes, so that every buffer is allocated
once, in its final size: `find_fields` notes the place of each field and the lengths of the columns,
`copy_field` fills one column. `_tables_py` continues with the headers tables that this finds.

Pure: no I/O, no state, no Arrow. `appendlog.layout.columns` documents the functions; layouts:
docs/log-format.md, section 5, and AMQP 0-9-1, section 4.2.6.1.
"""

from __future__ import annotations

from array import array
from mmap import mmap

from appendlog.layout import _memory_py as memory

ReadableBuffer = bytes | memoryview | mmap

EXCHANGE = 0
KEY = 1
ENVELOPE = 2
VALUE = 3
PROPERTIES = 4
FIELDS = 18

_HEADERS = 6
_DELIVERY_MODE = 7
_PRIORITY = 8
_TIMESTAMP = 13
_INT32_MAX = (1 << 31) - 1
_INT64_MAX = 0x7FFFFFFFFFFFFFFF
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_NANOSECONDS_PER_MICROSECOND = 1000


def find_fields(
    data: ReadableBuffer,
    positions: array[int],
    lengths: array[int],
    base: int,
    row: int,
    room: int,
    fields: array[int],
    is_text: array[int],
    with_properties: bool,
    starts: array[int],
    ends: memoryview,
    bits: bytearray,
    octet_numbers: memoryview,
    seconds: memoryview,
    extra: bytearray,
) -> tuple[int, int]:
    """Note the places of the fields of messages. See `appendlog.layout.columns`."""
    view = memoryview(data)
    found = array("q", [0]) * (2 * FIELDS)
    count = len(positions)
    slot_count = len(fields)
    for field in fields:
        if not 0 <= field < FIELDS:
            raise ValueError(f"no field {field}")
        if field >= PROPERTIES:
            with_properties = True
    if (
        row < 0
        or base < 0
        or room < 8
        or room % 8
        or row + count >= room
        or len(lengths) != count
        or len(is_text) != slot_count
        or len(starts) < slot_count * room
        or len(ends) < slot_count * room
        or len(bits) < (slot_count + 3) * (room >> 3)
        or len(octet_numbers) < 2 * room
        or len(seconds) < room
    ):
        raise ValueError(f"no room for rows [{row}, {row + count}) of {slot_count} columns")
    octets, places = memory.octets_of(data), memory.longs_of(found)
    position_places, length_places = memory.uints_of(positions), memory.uints_of(lengths)
    field_places, text_places = memory.ints_of(fields), memory.ints_of(is_text)
    start_places, end_places = memory.longs_of(starts), memory.ints_of(ends)
    bit_places = memory.stores_of(bits)
    number_places, time_places = memory.shorts_of(octet_numbers), memory.longs_of(seconds)
    data_bytes = len(view)
    unreadable = 0
    for index in range(count):
        at = position_places[index]
        stop = at + length_places[index]
        if stop > data_bytes:
            raise ValueError(f"message [{at}, {stop}) is not inside {data_bytes} bytes")
        if not _find_route(octets, at, stop, places):
            return unreadable, index
        bit = 1 << (row & 7)
        if with_properties:
            if not _find_properties(octets, places):
                unreadable += 1
            for number in range(2):
                field = _DELIVERY_MODE + number
                if places[2 * field + 1] >= 0:
                    number_places[number * room + row] = places[2 * field]
                    bit_places[(slot_count + number) * (room >> 3) + (row >> 3)] |= bit
                else:
                    number_places[number * room + row] = 0
            if places[2 * _TIMESTAMP + 1] >= 0:
                time_places[row] = places[2 * _TIMESTAMP]
                bit_places[(slot_count + 2) * (room >> 3) + (row >> 3)] |= bit
            else:
                time_places[row] = 0
        for slot in range(slot_count):
            field = field_places[slot]
            start = places[2 * field]
            size = places[2 * field + 1]
            to = slot * room + row
            if size < 0:
                start_places[to] = 0
                end_places[to + 1] = end_places[to]
                continue
            stop = start + size
            if (
                text_places[slot]
                and memory.ascii_end(octets, start, stop) < stop
                and not is_utf8(octets, start, stop)
            ):
                text = bytes(octets[start : start + size]).decode("utf-8", "replace").encode()
                start = ~len(extra)
                size = len(text)
                extra += text
            start_places[to] = start + base if start >= 0 else start
            size += end_places[to]
            if size > _INT32_MAX:
                raise ValueError("a column of more than 2 GiB")
            end_places[to + 1] = size
            bit_places[slot * (room >> 3) + (row >> 3)] |= bit
        row += 1
    return unreadable, -1


def copy_field(
    data: ReadableBuffer,
    extra: bytearray,
    starts: array[int],
    ends: memoryview,
    first: int,
    count: int,
    target: memoryview,
) -> None:
    """Fill one column with fields that were found. See `appendlog.layout.columns`."""
    view = memoryview(data)
    if first < 0 or count < 0 or first + count >= len(ends) or first + count > len(starts):
        raise ValueError(f"[{first}, {first + count}) is not inside {len(starts)} places")
    octets, others = memory.octets_of(data), memory.octets_of(extra)
    stores = memory.stores_of(target)
    start_places, end_places = memory.longs_of(starts), memory.ints_of(ends)
    data_bytes, spare_bytes, target_bytes = len(view), len(extra), len(target)
    for place in range(first, first + count):
        start = start_places[place]
        to = end_places[place]
        size = end_places[place + 1] - to
        if size == 0:
            continue
        if to < 0 or size < 0 or to + size > target_bytes:
            raise ValueError(f"[{to}, {to + size}) is not inside {target_bytes} bytes")
        if start >= 0:
            if start + size > data_bytes:
                raise ValueError(f"field at {start} is not inside {data_bytes} bytes")
            memory.copy_octets(stores, to, octets, start, size)
        else:
            if ~start + size > spare_bytes:
                raise ValueError(f"text at {~start} is not inside {spare_bytes} bytes")
            memory.copy_octets(stores, to, others, ~start, size)


def fill_range(target: memoryview, at: int, first: int, count: int) -> None:
    """Write `first`, `first + 1`, ... See `appendlog.layout.columns`."""
    if at < 0 or count < 0 or at + count > len(target):
        raise ValueError(f"[{at}, {at + count}) is not inside {len(target)} numbers")
    places = target
    for index in range(count):
        places[at + index] = first + index


def fill_microseconds(target: memoryview, at: int, times_ns: array[int]) -> None:
    """Write times, rounded down to microseconds. See `appendlog.layout.columns`."""
    count = len(times_ns)
    if at < 0 or at + count > len(target):
        raise ValueError(f"[{at}, {at + count}) is not inside {len(target)} numbers")
    places, time_places = target, times_ns
    for index in range(count):
        time_ns = time_places[index]
        time = time_ns // _NANOSECONDS_PER_MICROSECOND
        # Division in C rounds towards zero.
        if time * _NANOSECONDS_PER_MICROSECOND > time_ns:
            time -= 1
        places[at + index] = time


def is_utf8(octets: memoryview, at: int, end: int) -> bool:
    """Return whether `[at, end)` is UTF-8 by the rules of Python's strict decoder."""
    at = memory.ascii_end(octets, at, end)
    while at < end:
        first = octets[at]
        at += 1
        if first < 0x80:
            continue
        low = 0x80
        high = 0xBF
        if first < 0xC2:
            return False
        if first < 0xE0:
            more = 1
        elif first < 0xF0:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F
        elif first < 0xF5:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if more > end - at:
            return False
        while more:
            if octets[at] < low or octets[at] > high:
                return False
            low = 0x80
            high = 0xBF
            at += 1
            more -= 1
    return True


def _find_route(octets: memoryview, at: int, stop: int, places: array[int]) -> bool:
    """Find the parts before the properties, and the body; False if it is not a message."""
    if stop - at < 7:
        return False
    key_at = at + 2 + octets[at + 1]
    if key_at + 5 > stop:
        return False
    properties_at = key_at + 5 + octets[key_at]
    if properties_at > stop:
        return False
    size = octets[properties_at - 1]
    size = size << 8 | octets[properties_at - 2]
    size = size << 8 | octets[properties_at - 3]
    size = size << 8 | octets[properties_at - 4]
    if size > stop - properties_at:
        return False
    body_at = properties_at + size
    places[2 * EXCHANGE] = at + 2
    places[2 * EXCHANGE + 1] = key_at - at - 2
    places[2 * KEY] = key_at + 1
    places[2 * KEY + 1] = properties_at - key_at - 5
    places[2 * ENVELOPE] = at
    places[2 * ENVELOPE + 1] = body_at - at
    places[2 * VALUE] = body_at
    places[2 * VALUE + 1] = stop - body_at
    # Place of the property list; the places of its properties come after it.
    places[2 * PROPERTIES] = properties_at
    places[2 * PROPERTIES + 1] = body_at
    return True


def _find_properties(octets: memoryview, places: array[int]) -> bool:
    """Find the properties; False if they do not add up: then none are found."""
    at = places[2 * PROPERTIES]
    end = places[2 * PROPERTIES + 1]
    for field in range(PROPERTIES, FIELDS):
        places[2 * field + 1] = -1
    if at == end:
        return True
    if end - at < 2:
        return False
    flags = octets[at] << 8 | octets[at + 1]
    at += 2
    word = flags
    unknown = flags & 2
    while word & 1:
        if end - at < 2:
            return False
        word = octets[at] << 8 | octets[at + 1]
        unknown |= word & 0xFFFE
        at += 2
    # The end of an unknown property's value cannot be determined.
    if unknown:
        return False
    mask = 0x8000
    field = PROPERTIES
    while flags & 0xFFFC and field < FIELDS:
        if flags & mask:
            flags ^= mask
            at = _find_property(octets, at, end, field, places)
            if at < 0:
                break
        mask >>= 1
        field += 1
    if at == end:
        return True
    for field in range(PROPERTIES, FIELDS):
        places[2 * field + 1] = -1
    return False


def _find_property(octets: memoryview, at: int, end: int, field: int, places: array[int]) -> int:
    """Find one property; return where it ends, or -1 if that is past `end`."""
    start = at
    size = 0
    if field == _TIMESTAMP:
        if end - at < 8:
            return -1
        at += 8
        seconds = memory.big_endian(octets, start, 8)
        # The same bits with a sign; in C both branches are the same.
        start = seconds if seconds <= _INT64_MAX else ~(_ALL_BITS - seconds)
    elif _DELIVERY_MODE <= field <= _PRIORITY:
        if at >= end:
            return -1
        start = octets[at]
        at += 1
    else:
        if field == _HEADERS:
            if end - at < 4:
                return -1
            size = memory.big_endian(octets, at, 4)
            start = at + 4
        else:
            if at >= end:
                return -1
            size = octets[at]
            start = at + 1
        if size > end - start:
            return -1
        at = start + size
    places[2 * field] = start
    places[2 * field + 1] = size
    return at
