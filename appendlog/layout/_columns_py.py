"""The columns kernel: messages of a read to the buffers of Arrow columns.

One source, two builds, as `_walking_py`. It works in two passes, so that every buffer is
made once, in its size: `find_fields` notes where the fields of each message lie and how long
the columns become, `copy_field` fills one column. `decode_tables` makes maps of headers.

Pure: no I/O, no state, no Arrow. What it does is said in `appendlog.layout.columns`; layouts:
docs/log-format.md, section 5, and AMQP 0-9-1, sections 4.2.5.5 and 4.2.6.1.
"""

from __future__ import annotations

from array import array
from mmap import mmap

COMPILED = __name__.endswith("_c")

ReadableBuffer = bytes | memoryview | mmap

EXCHANGE = 0
KEY = 1
ENVELOPE = 2
VALUE = 3
PROPERTIES = 4
FIELDS = 18

TABLES_DONE = 0
TABLES_FULL = 1
TABLES_RARE = 2

TEXT_VALUES = 0
RAW_VALUES = 1

_HEADERS = 6
_DELIVERY_MODE = 7
_PRIORITY = 8
_TIMESTAMP = 13
_INT32_MAX = (1 << 31) - 1
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
_TIMESTAMP_SECONDS_MAX = (2**63 - 1) // 1_000_000
_TABLE_BYTES_MAX = 16 << 20  # headers.HEADERS_BYTES_MAX
_ENTRIES_MAX = 64  # more are looked through for repeated keys by who has a dict
_NANOSECONDS_PER_MICROSECOND = 1000


def find_fields(
    data: ReadableBuffer,
    positions: array[int],
    lengths: array[int],
    row: int,
    room: int,
    fields: array[int],
    is_text: array[int],
    with_properties: bool,
    starts: array[int],
    ends: memoryview,
    bits: bytearray,
    octet_numbers: memoryview,
    microseconds: memoryview,
    extra: bytearray,
) -> tuple[int, int]:
    """Note where the fields of messages lie. See `appendlog.layout.columns`."""
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
        or room < 8
        or room % 8
        or row + count >= room
        or len(lengths) != count
        or len(is_text) != slot_count
        or len(starts) < slot_count * room
        or len(ends) < slot_count * room
        or len(bits) < (slot_count + 3) * (room >> 3)
        or len(octet_numbers) < 2 * room
        or len(microseconds) < room
    ):
        raise ValueError(f"no room for rows [{row}, {row + count}) of {slot_count} columns")
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        octets = octets_of(data)  # type: ignore[name-defined]  # noqa: F821 - in the .pxd
    else:
        octets = view
    places = found
    position_places, length_places = positions, lengths
    field_places, text_places = fields, is_text
    start_places, end_places, bit_places = starts, ends, bits
    number_places, time_places = octet_numbers, microseconds
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
            if text_places[slot] and not is_utf8(octets, start, start + size):
                text = bytes(octets[start : start + size]).decode("utf-8", "replace").encode()
                start = ~len(extra)
                size = len(text)
                extra += text
            start_places[to] = start
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
    """Fill one column with what was found. See `appendlog.layout.columns`."""
    view = memoryview(data)
    if first < 0 or count < 0 or first + count >= len(ends) or first + count > len(starts):
        raise ValueError(f"[{first}, {first + count}) is not inside {len(starts)} places")
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        octets = octets_of(data)  # type: ignore[name-defined]  # noqa: F821 - in the .pxd
        others = octets_of(extra)  # type: ignore[name-defined]  # noqa: F821
        stores = stores_of(target)  # type: ignore[name-defined]  # noqa: F821
    else:
        octets, others, stores = view, memoryview(extra), target
    start_places, end_places = starts, ends
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
            _copy(stores, to, octets, start, size)
        else:
            if ~start + size > spare_bytes:
                raise ValueError(f"text at {~start} is not inside {spare_bytes} bytes")
            _copy(stores, to, others, ~start, size)


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
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        octets = octets_of(data)  # type: ignore[name-defined]  # noqa: F821 - in the .pxd
        key_stores = stores_of(keys)  # type: ignore[name-defined]  # noqa: F821
        value_stores = stores_of(values)  # type: ignore[name-defined]  # noqa: F821
        value_bit_stores = stores_of(value_bits)  # type: ignore[name-defined]  # noqa: F821
    else:
        octets, key_stores, value_stores, value_bit_stores = view, keys, values, value_bits
    key_end_places, value_end_places, sum_places = key_ends, value_ends, sums
    start_places, end_places, bit_places, map_places = starts, ends, bits, map_ends
    entries_room = min(len(key_ends) - 1, len(value_ends) - 1, 8 * len(value_bits))
    keys_room, values_room = len(keys), len(values)
    data_bytes = len(view)
    while row < until_row:
        size = end_places[first + row + 1] - end_places[first + row]
        if not bit_places[first_bit + (row >> 3)] & 1 << (row & 7):
            map_places[row + 1] = sum_places[0]
            row += 1
            continue
        start = start_places[first + row]
        if start < 0 or start + size > data_bytes:
            raise ValueError(f"table at {start} is not inside {data_bytes} bytes")
        if size > _TABLE_BYTES_MAX:
            return TABLES_RARE, row
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


def fill_range(target: memoryview, at: int, first: int, count: int) -> None:
    """Write `first`, `first + 1`, ... See `appendlog.layout.columns`."""
    if at < 0 or count < 0 or at + count > len(target):
        raise ValueError(f"[{at}, {at + count}) is not inside {len(target)} numbers")
    places = target
    for index in range(count):
        places[at + index] = first + index


def fill_microseconds(target: memoryview, at: int, times_ns: array[int]) -> None:
    """Write times, rounded down. See `appendlog.layout.columns`."""
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
    """Tell whether `[at, end)` is UTF-8 as Python's strict decoder has it."""
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        at = ascii_end(octets, at, end)  # type: ignore[name-defined]  # noqa: F821
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
    """Find what stands in front of the properties, and the body; False if it is no message."""
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
    # Where the properties lie; their own places come behind.
    places[2 * PROPERTIES] = properties_at
    places[2 * PROPERTIES + 1] = body_at
    return True


def _find_properties(octets: memoryview, places: array[int]) -> bool:
    """Find the properties; False if they do not add up: then there are none."""
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
    # Where the value of an unknown property ends nobody can tell.
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
    """Find one property; return where it ends, or -1 if that is behind `end`."""
    start = at
    size = 0
    if field == _TIMESTAMP:
        if end - at < 8:
            return -1
        at += 8
        seconds = _unsigned(octets, start, 8)
        if seconds > _TIMESTAMP_SECONDS_MAX:
            return at
        start = seconds * 1_000_000
    elif _DELIVERY_MODE <= field <= _PRIORITY:
        if at >= end:
            return -1
        start = octets[at]
        at += 1
    else:
        if field == _HEADERS:
            if end - at < 4:
                return -1
            size = _unsigned(octets, at, 4)
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
        _copy(keys, key_at, octets, start, size)
        key_at += size
        value_bits[entries >> 3] |= 1 << (entries & 7)
        width = 0
        is_signed = False
        if kind == 0x53 or (kind == 0x78 and form == RAW_VALUES):  # S, x
            if end - at < 4:
                return False
            size = _unsigned(octets, at, 4)
            at += 4
            if size > end - at or (form == TEXT_VALUES and not is_utf8(octets, at, at + size)):
                return False
            _copy(values, value_at, octets, at, size)
            value_at += size
            at += size
        elif kind == 0x56:  # V
            value_bits[entries >> 3] &= 0xFF ^ (1 << (entries & 7))
        elif kind == 0x74:  # t
            if at >= end:
                return False
            value_at = _put_truth(values, value_at, octets[at] != 0)
            at += 1
        elif kind == 0x6C or kind == 0x4C or kind == 0x54:  # l, L, T
            width = 8
            is_signed = kind != 0x54
        elif kind == 0x49 or kind == 0x69:  # I, i
            width = 4
            is_signed = kind == 0x49
        elif kind == 0x73 or kind == 0x75:  # s, u
            width = 2
            is_signed = kind == 0x73
        elif kind == 0x62 or kind == 0x42:  # b, B
            width = 1
            is_signed = kind == 0x62
        else:
            return False
        if width:
            if end - at < width:
                return False
            value_at = _put_digits(values, value_at, octets, at, width, is_signed)
            at += width
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
    """Tell whether one of the entries `[first, entries)` has this key."""
    for entry in range(first, entries):
        at = key_ends[entry]
        if key_ends[entry + 1] - at == size and _is_same(keys, at, octets, start, size):
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
    raw = _unsigned(octets, at, width)
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


def _unsigned(octets: memoryview, at: int, width: int) -> int:
    """Load a big-endian number of at most 8 octets."""
    value = octets[at]
    for place in range(at + 1, at + width):
        value = value << 8 | octets[place]
    return value


def _copy(stores: memoryview, to: int, octets: memoryview, start: int, size: int) -> None:
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        copy_octets(stores, to, octets, start, size)  # type: ignore[name-defined]  # noqa: F821
    else:
        stores[to : to + size] = octets[start : start + size]


def _is_same(stores: memoryview, at: int, octets: memoryview, start: int, size: int) -> bool:
    if COMPILED:  # pragma: no cover - the interpreted build is the measured one
        same = is_same(stores, at, octets, start, size)  # type: ignore[name-defined]  # noqa: F821
    else:
        same = stores[at : at + size] == octets[start : start + size]
    return bool(same)
