"""Tables kernel: writes the headers tables of many messages into the buffers of an Arrow column.

One source, two builds, as in `_walking_py`. It continues where `_columns_py` has found the tables,
and leaves rare ones to its caller.

Pure: no I/O, no state, no Arrow. `appendlog.layout.columns` documents the function; layouts:
AMQP 0-9-1, section 4.2.5.5, with RabbitMQ's errata for the kinds.
"""

from __future__ import annotations

from array import array
from mmap import mmap

from appendlog.layout import _columns_py as columns
from appendlog.layout import _json_py as json_text
from appendlog.layout import _memory_py as memory

ReadableBuffer = bytes | memoryview | mmap

TABLES_DONE = 0
TABLES_FULL = 1
TABLES_RARE = 2

TEXT_VALUES = 0
RAW_VALUES = 1
JSON_TEXT = 2

_TABLE_BYTES_MAX = 16 << 20  # headers.HEADERS_BYTES_MAX
_ENTRIES_MAX = 64  # larger tables are left to the caller, whose dict finds repeated keys


def decode_tables(
    data: ReadableBuffer,
    starts: array[int],
    ends: memoryview,
    bits: bytearray,
    first: int,
    first_bit: int,
    row: int,
    until_row: int,
    form: int,
    map_ends: memoryview,
    keys: memoryview,
    key_ends: memoryview,
    values: memoryview,
    value_ends: memoryview,
    value_bits: memoryview,
    sums: array[int],
) -> tuple[int, int]:
    """Make entries from headers tables. See `appendlog.layout.columns`."""
    view = memoryview(data)
    if (
        row < 0
        or until_row >= len(map_ends)
        or first + until_row >= len(ends)
        or first + until_row > len(starts)
        or first_bit + (until_row + 7 >> 3) > len(bits)
        or len(sums) < 3
    ):
        raise ValueError(f"rows [{row}, {until_row}) are not inside their columns")
    octets, sum_places = memory.octets_of(data), memory.longs_of(sums)
    key_stores, value_stores = memory.stores_of(keys), memory.stores_of(values)
    value_bit_stores = memory.stores_of(value_bits)
    key_end_places, value_end_places = memory.ints_of(key_ends), memory.ints_of(value_ends)
    start_places, end_places = memory.longs_of(starts), memory.ints_of(ends)
    bit_places = memory.stores_of(bits)
    map_places = memory.ints_of(map_ends)
    entries_room = min(len(key_ends) - 1, len(value_ends) - 1, 8 * len(value_bits))
    keys_room, values_room = len(keys), len(values)
    data_bytes = len(view)
    while row < until_row:
        size = end_places[first + row + 1] - end_places[first + row]
        if not bit_places[first_bit + (row >> 3)] & 1 << (row & 7):
            map_places[row + 1] = sum_places[2] if form == JSON_TEXT else sum_places[0]
            row += 1
            continue
        start = start_places[first + row]
        if start < 0 or start + size > data_bytes:
            raise ValueError(f"table at {start} is not inside {data_bytes} bytes")
        if size > _TABLE_BYTES_MAX:
            return TABLES_RARE, row
        # The shortest entry has two octets. An octet becomes at most six, see `_json_py`.
        if (
            sum_places[0] + min(size // 2, _ENTRIES_MAX) > entries_room
            or sum_places[1] + size > keys_room
            or sum_places[2] + 6 * size + 2 > values_room
        ):
            return TABLES_FULL, row
        if form == JSON_TEXT:
            size = json_text.put_object(
                octets, start, start + size, 1, True, value_stores, sum_places[2]
            )
            if size < 0:
                return TABLES_RARE, row
            sum_places[2] = size
            map_places[row + 1] = size
            row += 1
            continue
        if not _add_table(
            octets,
            start,
            start + size,
            form,
            key_stores,
            key_end_places,
            value_stores,
            value_end_places,
            value_bit_stores,
            sum_places,
        ):
            return TABLES_RARE, row
        map_places[row + 1] = sum_places[0]
        row += 1
    return TABLES_DONE, row


def _add_table(
    octets: memoryview,
    at: int,
    end: int,
    form: int,
    keys: memoryview,
    key_ends: memoryview,
    values: memoryview,
    value_ends: memoryview,
    value_bits: memoryview,
    sums: array[int],
) -> bool:
    """Add the entries of a table, for which there is space; False, and nothing added, if rare."""
    first = entries = sums[0]
    key_at = sums[1]
    value_at = sums[2]
    one = 1  # as wide as `seen` is in C
    seen = 0
    while at < end:
        size = octets[at]
        start = at + 1
        at = start + size
        if at >= end or entries - first >= _ENTRIES_MAX or not columns.is_utf8(octets, start, at):
            return False
        kind = octets[at]
        at += 1
        if form == TEXT_VALUES:
            mark = one << ((size * 7 + (octets[start] if size else 0)) & 63)
            if seen & mark and _is_known(keys, key_ends, first, entries, octets, start, size):
                return False
            seen |= mark
        memory.copy_octets(keys, key_at, octets, start, size)
        key_at += size
        value_bits[entries >> 3] |= 1 << (entries & 7)
        stop = json_text.value_end(octets, at, end, kind)
        if stop < 0:
            return False
        if kind == 0x53 or (kind == 0x78 and form == RAW_VALUES):  # S, x
            at += 4
            if form == TEXT_VALUES and not columns.is_utf8(octets, at, stop):
                return False
            memory.copy_octets(values, value_at, octets, at, stop - at)
            value_at += stop - at
        elif kind == 0x56:  # V
            value_bits[entries >> 3] &= 0xFF ^ (1 << (entries & 7))
        else:
            value_at = json_text.put_value(octets, at, stop, kind, 1, False, values, value_at)
            if value_at < 0:
                return False
        at = stop
        entries += 1
        key_ends[entries] = key_at
        value_ends[entries] = value_at
    sums[0] = entries
    sums[1] = key_at
    sums[2] = value_at
    return True


def _is_known(
    keys: memoryview,
    key_ends: memoryview,
    first: int,
    entries: int,
    octets: memoryview,
    start: int,
    size: int,
) -> bool:
    """Return whether one of the entries `[first, entries)` has this key."""
    for entry in range(first, entries):
        at = key_ends[entry]
        if key_ends[entry + 1] - at == size and memory.is_same(keys, at, octets, start, size):
            return True
    return False
