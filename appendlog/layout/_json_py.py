"""Header values as JSON, from octets to octets; the tables kernel writes text with it.

One source, two builds, as in `_walking_py`. The caller has checked the space: an octet becomes at
most six octets (a control character in a string), and an object has two more.

Pure: no I/O, no state. Same results as `appendlog.layout.headers` and `headers_json`, or -1 for
rare values, which are left to them. Kinds: AMQP 0-9-1, section 4.2.5.5, with RabbitMQ's errata.
"""

from __future__ import annotations

from appendlog.layout import _columns_py as columns
from appendlog.layout import _memory_py as memory

_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_DEPTH_MAX = 64  # headers.HEADERS_DEPTH_MAX
_ENTRIES_MAX = 64  # larger tables are left to the caller, whose dict finds repeated keys


def put_object(
    octets: memoryview,
    at: int,
    end: int,
    depth: int,
    is_marked: bool,
    values: memoryview,
    to: int,
) -> int:
    """Write the entries [at, end) as a JSON object; return where it ends, -1 if one is rare.

    A marked object follows `headers_json`: all entries, and a mark before some keys.
    """
    begin = at
    entries = 0
    one = 1  # as wide as `seen` is in C
    seen = 0
    values[to] = 0x7B
    to += 1
    while at < end:
        size = octets[at]
        start = at + 1
        at = start + size
        if at >= end or not columns.is_utf8(octets, start, at):
            return -1
        if entries:
            values[to] = 0x2C
            to += 1
        entries += 1
        if not is_marked:
            mark = one << ((size * 7 + (octets[start] if size else 0)) & 63)
            if entries > _ENTRIES_MAX or (seen & mark and _is_repeated(octets, begin, start, end)):
                return -1
            seen |= mark
        has_mark = is_marked and size > 0 and octets[start] == 0x24
        to = _put_string(values, to, octets, start, size, has_mark)
        values[to] = 0x3A
        to += 1
        kind = octets[at]
        at += 1
        stop = value_end(octets, at, end, kind)
        if stop < 0:
            return -1
        to = put_value(octets, at, stop, kind, depth, is_marked, values, to)
        if to < 0:
            return -1
        at = stop
    values[to] = 0x7D
    return to + 1


def _put_array(
    octets: memoryview,
    at: int,
    end: int,
    depth: int,
    is_marked: bool,
    values: memoryview,
    to: int,
) -> int:
    """Write the items [at, end) as a JSON array; return where it ends, -1 if one is rare."""
    begin = at
    values[to] = 0x5B
    to += 1
    while at < end:
        if at > begin:
            values[to] = 0x2C
            to += 1
        kind = octets[at]
        at += 1
        stop = value_end(octets, at, end, kind)
        if stop < 0:
            return -1
        to = put_value(octets, at, stop, kind, depth, is_marked, values, to)
        if to < 0:
            return -1
        at = stop
    values[to] = 0x5D
    return to + 1


def put_value(
    octets: memoryview,
    at: int,
    stop: int,
    kind: int,
    depth: int,
    is_marked: bool,
    values: memoryview,
    to: int,
) -> int:
    """Write the value [at, stop) as JSON; return where that ends, -1 if it is rare."""
    width = _integer_width(kind)
    if width:
        return _put_digits(values, to, octets, at, width, _is_signed(kind))
    if kind == 0x53 and columns.is_utf8(octets, at + 4, stop):  # S
        return _put_string(values, to, octets, at + 4, stop - at - 4, False)
    if kind == 0x74:  # t
        return _put_truth(values, to, octets[at] != 0)
    if kind == 0x66 or kind == 0x64:  # f, d
        return int(memory.put_double(values, to, octets, at, stop - at))
    if kind == 0x46 and depth < _DEPTH_MAX:  # F
        return put_object(octets, at + 4, stop, depth + 1, is_marked, values, to)
    if kind == 0x41 and depth < _DEPTH_MAX:  # A
        return _put_array(octets, at + 4, stop, depth + 1, is_marked, values, to)
    if kind == 0x56:  # V
        values[to] = 0x6E
        values[to + 1] = 0x75
        values[to + 2] = 0x6C
        values[to + 3] = 0x6C
        return to + 4
    return -1


def value_end(octets: memoryview, at: int, end: int, kind: int) -> int:
    """Return where a value ends, -1 if that is past `end` or the kind is unknown."""
    size = _integer_width(kind)
    if kind == 0x53 or kind == 0x78 or kind == 0x46 or kind == 0x41:  # S, x, F, A
        if end - at < 4:
            return -1
        size = memory.big_endian(octets, at, 4)
        at += 4
    elif kind == 0x74:  # t
        size = 1
    elif kind == 0x66:  # f
        size = 4
    elif kind == 0x64:  # d
        size = 8
    elif not size and kind != 0x56:  # V; D is rare
        return -1
    return at + size if size <= end - at else -1


def _is_repeated(octets: memoryview, at: int, key: int, end: int) -> bool:
    """Return whether an entry from `at` on, before the one of the key at `key`, has this key."""
    size = octets[key - 1]
    while at < key - 1:
        start = at + 1
        at = start + octets[at]
        if octets[start - 1] == size and memory.same_octets(octets, start, key, size):
            return True
        at = value_end(octets, at + 1, end, octets[at])
    return False


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
    """Return the width of an integer kind in octets; 0 for other kinds."""
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
    """Return whether an integer of a kind may be negative."""
    return kind != 0x54 and kind != 0x69 and kind != 0x75 and kind != 0x42


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
    raw = memory.big_endian(octets, at, width)
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
