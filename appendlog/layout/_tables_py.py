"""The tables kernel: headers tables of many messages to the buffers of one Arrow column.

One source, two builds, as `_walking_py`. Goes on where `_columns_py` has found the tables, and
leaves to its caller what is rare. Writes maps, lists of pairs or JSON.

Pure: no I/O, no state, no Arrow. What it does is said in `appendlog.layout.columns`; layouts:
AMQP 0-9-1, section 4.2.5.5, with RabbitMQ's errata for the kinds.
"""

# The names of `POINTERS` are not names of this module to the compiler, nor to the linters.
# mypy: disable-error-code="name-defined"
# ruff: noqa: F821

from __future__ import annotations

from array import array
from mmap import mmap

from appendlog.layout import _places_py

COMPILED = __name__.endswith("_c")
if not COMPILED:  # the compiled build has them from the .pxd
    from appendlog.layout._columns_py import is_utf8

    globals().update(_places_py.POINTERS)

ReadableBuffer = bytes | memoryview | mmap

TABLES_DONE = 0
TABLES_FULL = 1
TABLES_RARE = 2

TEXT_VALUES = 0
RAW_VALUES = 1
JSON_TEXT = 2

_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_TABLE_BYTES_MAX = 16 << 20  # headers.HEADERS_BYTES_MAX
_ENTRIES_MAX = 64  # more are looked through for repeated keys by who has a dict


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
    """Make entries of headers tables. See `appendlog.layout.columns`."""
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
    octets, sum_places = octets_of(data), longs_of(sums)
    key_stores, value_stores = stores_of(keys), stores_of(values)
    value_bit_stores = stores_of(value_bits)
    key_end_places, value_end_places = ints_of(key_ends), ints_of(value_ends)
    start_places, end_places, bit_places = longs_of(starts), ints_of(ends), stores_of(bits)
    map_places = ints_of(map_ends)
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
        if form == JSON_TEXT:
            # An octet of a string becomes six at most, and a table two more.
            if sum_places[2] + 6 * size + 2 > values_room:
                return TABLES_FULL, row
            size = _add_json(octets, start, start + size, value_stores, sum_places[2])
            if size < 0:
                return TABLES_RARE, row
            sum_places[2] = size
            map_places[row + 1] = size
            row += 1
            continue
        # The shortest entry has two octets; no text is more than twice as long as its entry.
        if (
            sum_places[0] + min(size // 2, _ENTRIES_MAX) > entries_room
            or sum_places[1] + size > keys_room
            or sum_places[2] + 2 * size > values_room
        ):
            return TABLES_FULL, row
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
    """Add the entries of a table with room for all; False, and nothing, if it is a rare one."""
    first = entries = sums[0]
    key_at = sums[1]
    value_at = sums[2]
    one = 1  # as wide as `seen` is in C
    seen = 0
    while at < end:
        size = octets[at]
        start = at + 1
        at = start + size
        if at >= end or entries - first >= _ENTRIES_MAX or not is_utf8(octets, start, at):
            return False
        kind = octets[at]
        at += 1
        if form == TEXT_VALUES:
            mark = one << ((size * 7 + (octets[start] if size else 0)) & 63)
            if seen & mark and _is_known(keys, key_ends, first, entries, octets, start, size):
                return False
            seen |= mark
        copy_octets(keys, key_at, octets, start, size)
        key_at += size
        value_bits[entries >> 3] |= 1 << (entries & 7)
        width = 0
        if kind == 0x53 or (kind == 0x78 and form == RAW_VALUES):  # S, x
            if end - at < 4:
                return False
            size = big_endian(octets, at, 4)
            at += 4
            if size > end - at or (form == TEXT_VALUES and not is_utf8(octets, at, at + size)):
                return False
            copy_octets(values, value_at, octets, at, size)
            value_at += size
            at += size
        elif kind == 0x56:  # V
            value_bits[entries >> 3] &= 0xFF ^ (1 << (entries & 7))
        elif kind == 0x74:  # t
            if at >= end:
                return False
            value_at = _put_truth(values, value_at, octets[at] != 0)
            at += 1
        else:
            width = _integer_width(kind)
            if not width:
                return False
        if width:
            if end - at < width:
                return False
            value_at = _put_digits(values, value_at, octets, at, width, _is_signed(kind))
            at += width
        entries += 1
        key_ends[entries] = key_at
        value_ends[entries] = value_at
    sums[0] = entries
    sums[1] = key_at
    sums[2] = value_at
    return True


def _add_json(octets: memoryview, at: int, end: int, values: memoryview, to: int) -> int:
    """Write a table as a JSON object; return where it ends, -1 if it is a rare one."""
    values[to] = 0x7B
    to += 1
    is_first = True
    while at < end:
        size = octets[at]
        start = at + 1
        at = start + size
        if at >= end or not is_utf8(octets, start, at):
            return -1
        if not is_first:
            values[to] = 0x2C
            to += 1
        is_first = False
        to = _put_string(values, to, octets, start, size, size > 0 and octets[start] == 0x24)
        values[to] = 0x3A
        to += 1
        kind = octets[at]
        at += 1
        width = _integer_width(kind)
        if width:
            if end - at < width:
                return -1
            to = _put_digits(values, to, octets, at, width, _is_signed(kind))
            at += width
        elif kind == 0x53:  # S
            if end - at < 4:
                return -1
            size = big_endian(octets, at, 4)
            at += 4
            if size > end - at or not is_utf8(octets, at, at + size):
                return -1
            to = _put_string(values, to, octets, at, size, False)
            at += size
        elif kind == 0x56:  # V
            values[to] = 0x6E
            values[to + 1] = 0x75
            values[to + 2] = 0x6C
            values[to + 3] = 0x6C
            to += 4
        elif kind == 0x74:  # t
            if at >= end:
                return -1
            to = _put_truth(values, to, octets[at] != 0)
            at += 1
        else:
            return -1
    values[to] = 0x7D
    return to + 1


def _put_string(
    values: memoryview, to: int, octets: memoryview, at: int, size: int, is_marked: bool
) -> int:
    """Write UTF-8 as a JSON string, as Python does; return where it ends."""
    values[to] = 0x22
    to += 1
    if is_marked:
        values[to] = 0x24
        to += 1
    for place in range(at, at + size):
        octet = octets[place]
        if octet >= 0x20 and octet != 0x22 and octet != 0x5C:
            values[to] = octet
            to += 1
            continue
        values[to] = 0x5C
        brief = octet if octet >= 0x20 else 0
        if octet == 0x0A:
            brief = 0x6E
        elif octet == 0x0D:
            brief = 0x72
        elif octet == 0x09:
            brief = 0x74
        elif octet == 0x08:
            brief = 0x62
        elif octet == 0x0C:
            brief = 0x66
        if brief:
            values[to + 1] = brief
            to += 2
            continue
        values[to + 1] = 0x75
        values[to + 2] = 0x30
        values[to + 3] = 0x30
        values[to + 4] = 0x30 + (octet >> 4)
        low = octet & 15
        values[to + 5] = 0x30 + low if low < 10 else 0x57 + low
        to += 6
    values[to] = 0x22
    return to + 1


def _integer_width(kind: int) -> int:
    """Return how many octets an integer of a kind has; 0 for other kinds."""
    width = 0
    if kind == 0x6C or kind == 0x4C or kind == 0x54:  # l, L, T
        width = 8
    elif kind == 0x49 or kind == 0x69:  # I, i
        width = 4
    elif kind == 0x73 or kind == 0x75:  # s, u
        width = 2
    elif kind == 0x62 or kind == 0x42:  # b, B
        width = 1
    return width


def _is_signed(kind: int) -> bool:
    """Tell whether an integer of a kind may be negative."""
    return kind != 0x54 and kind != 0x69 and kind != 0x75 and kind != 0x42


def _is_known(
    keys: memoryview,
    key_ends: memoryview,
    first: int,
    entries: int,
    octets: memoryview,
    start: int,
    size: int,
) -> bool:
    """Tell whether one of the entries `[first, entries)` has this key."""
    for entry in range(first, entries):
        at = key_ends[entry]
        if key_ends[entry + 1] - at == size and is_same(keys, at, octets, start, size):
            return True
    return False


def _put_truth(values: memoryview, at: int, is_true: bool) -> int:
    """Write `true` or `false`; return where it ends."""
    size = 4 if is_true else 5
    if is_true:
        values[at] = 0x74
        values[at + 1] = 0x72
        values[at + 2] = 0x75
    else:
        values[at] = 0x66
        values[at + 1] = 0x61
        values[at + 2] = 0x6C
        values[at + 3] = 0x73
    values[at + size - 1] = 0x65
    return at + size


def _put_digits(
    values: memoryview, to: int, octets: memoryview, at: int, width: int, is_signed: bool
) -> int:
    """Write an integer of `width` octets in decimal; return where it ends."""
    raw = big_endian(octets, at, width)
    if is_signed and octets[at] & 0x80:
        values[to] = 0x2D
        to += 1
        raw = (~raw & (_ALL_BITS >> (64 - 8 * width))) + 1
    rest = raw
    end = to + 1
    while rest >= 10:
        rest = rest // 10
        end += 1
    place = end
    while place > to:
        place -= 1
        values[place] = 0x30 + raw % 10
        raw = raw // 10
    return end
