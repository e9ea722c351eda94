"""Decodes and encodes field tables, with every kind of value bit for bit.

Decoding makes one Python call for each level, so the limit of the depth also keeps a hostile table
from exhausting the stack. As in RabbitMQ, two things are not kept: a boolean octet above 1 becomes
true (1), and of a repeated key only the last value counts. This concerns arguments only: the bytes
of a message are stored unchanged and never rebuilt from a table.

Source: AMQP 0-9-1 specification, section 4.2.5.5, and RabbitMQ's errata for the kinds.
"""

import struct
from struct import Struct
from typing import Any

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.field_comparison import describe, describe_difference, same_value
from amqp_server.protocol.field_values import (
    TABLE_DEPTH_MAX,
    VOID,
    DecimalValue,
    FieldData,
    FieldValue,
    PythonValue,
    Table,
    field_value,
    table_of,
)
from amqp_server.protocol.strings import (
    decode_longstr,
    decode_shortstr,
    encode_longstr,
    encode_shortstr,
)
from amqp_server.protocol.table_json import table_from_json, table_to_json

__all__ = [
    "TABLE_DEPTH_MAX",
    "VOID",
    "DecimalValue",
    "FieldData",
    "FieldValue",
    "PythonValue",
    "Table",
    "decode_table",
    "decode_table_body",
    "describe",
    "describe_difference",
    "encode_table",
    "field_value",
    "has_more_values",
    "same_value",
    "table_from_json",
    "table_of",
    "table_to_json",
    "table_without",
    "take_array",
]

_LENGTH = Struct(">I")
_DOUBLE = Struct(">d")
_DOUBLE_BITS = Struct(">Q")
_FLOAT = Struct(">f")
_DECIMAL = Struct(">Bi")
_INTEGERS = {
    b"b": Struct(">b"),
    b"B": Struct(">B"),
    b"s": Struct(">h"),
    b"u": Struct(">H"),
    b"I": Struct(">i"),
    b"i": Struct(">I"),
    b"l": Struct(">q"),
    b"L": Struct(">q"),
    b"T": Struct(">Q"),
}

_SIZES = {kind: integer.size for kind, integer in _INTEGERS.items()} | {
    b"t": 1,
    b"d": _DOUBLE.size,
    b"f": _FLOAT.size,
    b"D": _DECIMAL.size,
    b"V": 0,
}
"""Octets of a value of each kind whose size is fixed."""

_TYPES: dict[bytes, type] = dict.fromkeys(_INTEGERS, int) | {
    b"S": bytes,
    b"x": bytes,
    b"F": dict,
    b"A": list,
    b"t": bool,
    b"d": float,
    b"f": float,
    b"D": DecimalValue,
    b"V": type(None),
}
"""Type of the value of each kind."""

# A float32 NaN is converted by hand: the processor's conversion would set the quiet bit and so
# change what the client sent.
_FLOAT_EXPONENT = 0x7F800000
_FLOAT_MANTISSA = 0x007FFFFF
_FLOAT_QUIET_BIT = 0x00400000
_DOUBLE_EXPONENT = 0x7FF0000000000000
_MANTISSA_BITS_MORE = 52 - 23


def decode_table(data: bytes, position: int = 0, depth: int = 1) -> tuple[Table, int]:
    """Decode the length-prefixed table at a position; return it and the position after it.

    Args:
        data: Octets with the table.
        position: Start of its length.
        depth: Its level: 1, or more if it was taken out of other tables.

    Raises:
        FieldSyntaxError: The bytes end too early, have inconsistent lengths or an unknown kind, or
            nest more than `TABLE_DEPTH_MAX` levels.
    """
    try:
        start, end = _extent(data, position)
        return _decode_entries(data, start, end, depth), end
    except struct.error as error:
        raise FieldSyntaxError("field table is cut short") from error


def decode_table_body(data: bytes) -> Table:
    """Decode a table without its length prefix, as in the AMQPLAIN response.

    Raises:
        FieldSyntaxError: As for `decode_table`.
    """
    try:
        return _decode_entries(data, 0, len(data), 1)
    except struct.error as error:
        raise FieldSyntaxError("field table is cut short") from error


def encode_table(table: Table, depth: int = 1) -> bytes:
    """Return the length-prefixed bytes of a table, with the entries in its own order.

    Args:
        table: The table.
        depth: Its level: 1, or more if it goes into other tables.

    Raises:
        FieldSyntaxError: A key exceeds 255 bytes, a value does not fit its kind, or tables nest
            more than `TABLE_DEPTH_MAX` levels.
    """
    try:
        return _encode_entries(table, depth)
    except (struct.error, OverflowError) as error:
        raise FieldSyntaxError(f"field table value out of range: {error}") from error


def has_more_values(data: bytes, position: int, count_max: int) -> bool:
    """Return whether the table at a position has more values than this, in all its levels.

    It is looked through only as far as needed. A malformed table may have either answer: decoding
    it fails.
    """
    try:
        start, end = _extent(data, position)
        if end - start <= count_max:
            # Each value has an octet at least.
            return False
        return _passes(data, start, end, count_max)
    except (struct.error, IndexError, KeyError, FieldSyntaxError):
        return False


def _passes(data: bytes, position: int, end: int, count_max: int) -> bool:
    """Do the same for entries that lie between two positions."""
    # Where the tables and arrays end that the position is in, and whether they are tables.
    levels = [(end, True)]
    count = 0
    while levels:
        end, is_table = levels[-1]
        if position >= end:
            levels.pop()
            continue
        count += 1
        if count > count_max:
            return True
        if is_table:
            position += 1 + data[position]
        kind = data[position : position + 1]
        position += 1
        if kind in {b"F", b"A"}:
            position, end = _extent(data, position)
            levels.append((end, kind == b"F"))
        elif kind in {b"S", b"x"}:
            _, position = _extent(data, position)
        else:
            position += _SIZES[kind]
    return False


def table_without(table: bytes, name: str) -> bytes:
    """Return a length-prefixed table without one key; all other octets are unchanged.

    Args:
        table: The whole table, with nothing after it.
        name: Key to remove; all its entries are removed if it is repeated.

    Raises:
        FieldSyntaxError: As for `decode_table`.
    """
    kept: list[bytes] = []
    try:
        position, end = _extent(table, 0)
        while position < end:
            start = position
            key, position = decode_shortstr(table, position)
            _, position = _decode_value(table, position, 1)
            if key != name:
                kept.append(table[start:position])
    except struct.error as error:
        raise FieldSyntaxError("field table is cut short") from error
    return encode_longstr(b"".join(kept))


def take_array(table: bytes, name: str) -> tuple[bytes, list[bytes] | None]:
    """Take the items of an array out of a table, without decoding any value.

    Args:
        table: The whole table with its length, and nothing after it.
        name: Key of the array. If it is repeated, the last value counts.

    Returns:
        The table with a void value in the place of the array, and the octets of each item, with its
        kind; None if the key is missing or its value no array.

    Raises:
        FieldSyntaxError: Lengths are inconsistent, or a kind is unknown. Values may be malformed.
    """
    items: list[bytes] | None = None
    kept: list[bytes] = []
    try:
        position, end = _extent(table, 0)
        while position < end:
            start = position
            key, position = decode_shortstr(table, position)
            kind_at, position = position, _skip_value(table, position)
            if key != name:
                kept.append(table[start:position])
            elif table[kind_at : kind_at + 1] == b"A":
                kept.append(table[start:kind_at] + b"V")
                items = _split_items(table, *_extent(table, kind_at + 1))
            else:
                kept.append(table[start:position])
                items = None
        if position != end:
            raise FieldSyntaxError(f"field table entry passes the end of its table at byte {end}")
    except struct.error as error:
        raise FieldSyntaxError("field table is cut short") from error
    return encode_longstr(b"".join(kept)), items


def _split_items(data: bytes, position: int, end: int) -> list[bytes]:
    items: list[bytes] = []
    while position < end:
        start, position = position, _skip_value(data, position)
        items.append(data[start:position])
    if position != end:
        raise FieldSyntaxError(f"field array item passes the end of its array at byte {end}")
    return items


def _skip_value(data: bytes, position: int) -> int:
    """Return the position after a value, of which only the kind and the length are looked at."""
    kind = data[position : position + 1]
    if kind in {b"S", b"x", b"F", b"A"}:
        return _extent(data, position + 1)[1]
    size = _SIZES.get(kind)
    if size is None:
        raise FieldSyntaxError(f"unknown field kind {kind!r} at byte {position}")
    return position + 1 + size


def _extent(data: bytes, position: int) -> tuple[int, int]:
    """Return where the content of a table or array starts and ends."""
    start = position + _LENGTH.size
    end: int = start + _LENGTH.unpack_from(data, position)[0]
    if end > len(data):
        raise FieldSyntaxError(f"field table at byte {position} passes the end of the data")
    return start, end


def _check_depth(depth: int) -> None:
    if depth > TABLE_DEPTH_MAX:
        raise FieldSyntaxError(f"field table nests more than {TABLE_DEPTH_MAX} levels")


def _decode_entries(data: bytes, position: int, end: int, depth: int) -> Table:
    _check_depth(depth)
    table: Table = {}
    while position < end:
        key, position = decode_shortstr(data, position)
        table[key], position = _decode_value(data, position, depth)
    # An entry that is longer than its table has moved the position past the table's end.
    if position != end:
        raise FieldSyntaxError(f"field table entry passes the end of its table at byte {end}")
    return table


def _decode_items(data: bytes, position: int, end: int, depth: int) -> list[FieldValue]:
    _check_depth(depth)
    items: list[FieldValue] = []
    while position < end:
        item, position = _decode_value(data, position, depth)
        items.append(item)
    if position != end:
        raise FieldSyntaxError(f"field array item passes the end of its array at byte {end}")
    return items


def _decode_value(data: bytes, position: int, depth: int) -> tuple[FieldValue, int]:
    kind = data[position : position + 1]
    position += 1
    if integer := _INTEGERS.get(kind):
        return FieldValue(kind, integer.unpack_from(data, position)[0]), position + integer.size
    match kind:
        case b"S" | b"x":
            raw, position = decode_longstr(data, position)
            return FieldValue(kind, raw), position
        case b"t":
            if position >= len(data):
                raise FieldSyntaxError("field table boolean is cut short")
            return FieldValue(kind, data[position] != 0), position + 1
        case b"d":
            return FieldValue(kind, _DOUBLE.unpack_from(data, position)[0]), position + 8
        case b"f":
            return FieldValue(kind, _decode_float(data, position)), position + 4
        case b"D":
            return FieldValue(
                kind, DecimalValue(*_DECIMAL.unpack_from(data, position))
            ), position + 5
        case b"F":
            start, end = _extent(data, position)
            return FieldValue(kind, _decode_entries(data, start, end, depth + 1)), end
        case b"A":
            start, end = _extent(data, position)
            return FieldValue(kind, _decode_items(data, start, end, depth + 1)), end
        case b"V":
            return VOID, position
        case _:
            raise FieldSyntaxError(f"unknown field kind {kind!r} at byte {position - 1}")


def _decode_float(data: bytes, position: int) -> float:
    number: float = _FLOAT.unpack_from(data, position)[0]
    if number == number:
        return number
    bits: int = _LENGTH.unpack_from(data, position)[0]
    sign = (bits >> 31) << 63
    payload = (bits & _FLOAT_MANTISSA) << _MANTISSA_BITS_MORE
    widened: float = _DOUBLE.unpack(_DOUBLE_BITS.pack(sign | _DOUBLE_EXPONENT | payload))[0]
    return widened


def _encode_float(number: float) -> bytes:
    if number == number:
        return _FLOAT.pack(number)
    bits: int = _DOUBLE_BITS.unpack(_DOUBLE.pack(number))[0]
    payload = (bits >> _MANTISSA_BITS_MORE) & _FLOAT_MANTISSA
    # A NaN must keep a bit of its payload: without any it would become an infinity.
    return _LENGTH.pack((bits >> 63) << 31 | _FLOAT_EXPONENT | (payload or _FLOAT_QUIET_BIT))


def _encode_entries(table: Table, depth: int) -> bytes:
    _check_depth(depth)
    parts: list[bytes] = []
    for key, value in table.items():
        parts.append(encode_shortstr(key))
        parts.append(_encode_value(value, depth))
    return encode_longstr(b"".join(parts))


def _encode_items(items: list[FieldValue], depth: int) -> bytes:
    _check_depth(depth)
    return encode_longstr(b"".join([_encode_value(item, depth) for item in items]))


def _encode_value(value: FieldValue, depth: int) -> bytes:
    kind = value.kind
    if not isinstance(value.value, _TYPES.get(kind, ())):
        raise FieldSyntaxError(
            f"field kind {kind!r} cannot hold a value of type {type(value.value).__name__}"
        )
    held: Any = value.value
    # Not by class patterns: they would take ten times as long.
    if integer := _INTEGERS.get(kind):
        return kind + integer.pack(held)
    if kind in {b"S", b"x"}:
        return kind + encode_longstr(held)
    if kind == b"F":
        return kind + _encode_entries(held, depth + 1)
    if kind == b"A":
        return kind + _encode_items(held, depth + 1)
    if kind == b"t":
        return b"t\x01" if held else b"t\x00"
    if kind == b"d":
        return kind + _DOUBLE.pack(held)
    if kind == b"f":
        return kind + _encode_float(held)
    return kind + _DECIMAL.pack(*held) if kind == b"D" else kind
