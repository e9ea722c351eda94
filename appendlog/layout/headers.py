"""The headers table of a message as text, for readers without an AMQP library.

The broker stores headers unchanged and has its own decoder. This module decodes a table to a map
from text to text, for columns of an export:

    kind                      text
    S (long string)           itself when it is UTF-8, else its base64
    x (byte array)            its base64
    t                         true, false
    b B s u I i l L T         decimal digits (T: seconds since 1970 UTC)
    f d                       shortest digits of the double; NaN, Infinity, -Infinity
    D                         decimal number: 3.14, 1E-100
    V                         no text: null
    F A                       JSON, the same rules inside; D, NaN and infinities as strings

If a key is sent twice, its last value counts. In a key that is not UTF-8, U+FFFD replaces the bad
bytes. `HEADERS_BYTES_MAX` and `HEADERS_DEPTH_MAX` bound the decoding, which takes time linear in
the bytes. It never guesses: a table whose lengths do not add up is an error. `split_headers`
separates what can be decoded of such a table from what cannot, as the broker does.

Source: AMQP 0-9-1 specification, section 4.2.5.5, with RabbitMQ's errata for the kinds.
"""

import base64
import json
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from struct import Struct
from typing import Final

HEADERS_BYTES_MAX: Final = 16 << 20
"""Maximum size of a table; a broker's frame is far smaller."""
HEADERS_DEPTH_MAX: Final = 64
"""Maximum nesting of tables and arrays, including the outermost table."""

HeaderValue = (
    bool
    | int
    | float
    | str
    | bytes
    | Decimal
    | list["HeaderValue"]
    | dict[str, "HeaderValue"]
    | None
)
"""Python type of a value; a long string is bytes if it is not UTF-8."""


MALFORMED_KEY: Final = "$malformed"
"""Key in an export for the octets of a table that cannot be decoded."""


class HeaderPairs(dict[str, HeaderValue]):
    """Headers table that keeps all its entries.

    Attributes:
        pairs: All entries in their order, including repeated keys.
    """

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, HeaderValue]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


_Pairs = list[tuple[str, HeaderValue]]
_AsTable = Callable[[_Pairs], HeaderValue]
_LENGTH: Final = Struct(">I")
_DECIMAL: Final = Struct(">Bi")
_NUMBERS: Final = {
    ord(kind): Struct(layout)
    for kind, layout in {
        "b": ">b",
        "B": ">B",
        "s": ">h",
        "u": ">H",
        "I": ">i",
        "i": ">I",
        "l": ">q",
        "L": ">q",
        "T": ">Q",
        "f": ">f",
        "d": ">d",
    }.items()
}
_TEXT: Final = ord("S")
_OCTETS: Final = ord("x")
_BOOLEAN: Final = ord("t")
_SCALED: Final = ord("D")
_VOID: Final = ord("V")
_TABLE: Final = ord("F")
_ARRAY: Final = ord("A")


class MalformedHeadersError(ValueError):
    """The bytes are not a headers table."""


def decode_headers(table: bytes, malformed: bytes = b"") -> dict[str, str | None]:
    """Return the entries of a headers table as text, in the order of the first key.

    Args:
        table: Octets after the table's length; not kept.
        malformed: Octets of the table that cannot be decoded: the value of `MALFORMED_KEY`.

    Raises:
        MalformedHeadersError: The bytes do not add up, name an unknown kind, nest deeper
            than `HEADERS_DEPTH_MAX` or are more than `HEADERS_BYTES_MAX`.
    """
    texts = {key: _text(value) for key, value in decode_header_values(table).items()}
    return texts | {MALFORMED_KEY: _base64(malformed)} if malformed else texts


def decode_header_values(table: bytes) -> dict[str, HeaderValue]:
    """Return the entries of a headers table as Python values, in the order of the first key.

    Args:
        table: Octets after the table's length; not kept.

    Raises:
        MalformedHeadersError: As for `decode_headers`.
    """
    return dict(_all_pairs(table, dict))


def decode_header_pairs(table: bytes) -> HeaderPairs:
    """Return all entries of a headers table, and of the tables inside it, in their order.

    Args:
        table: Octets after the table's length; not kept.

    Raises:
        MalformedHeadersError: As for `decode_headers`.
    """
    return HeaderPairs(_all_pairs(table, HeaderPairs))


def decode_raw_headers(table: bytes, malformed: bytes = b"") -> list[tuple[str, bytes | None]]:
    """Return all entries of a headers table in their order, each value as octets.

    Strings and byte arrays stay unchanged; any other value is the UTF-8 of its text.

    Args:
        table: Octets after the table's length; not kept.
        malformed: Octets of the table that cannot be decoded: the value of `MALFORMED_KEY`.

    Raises:
        MalformedHeadersError: As for `decode_headers`.
    """
    entries = [(key, _raw(value)) for key, value in _all_pairs(table, dict)]
    return [*entries, (MALFORMED_KEY, malformed)] if malformed else entries


def split_headers(table: bytes) -> tuple[bytes, bytes]:
    """Split a table before its first entry that cannot be decoded.

    Where that one ends, and so where the next one begins, is not known.

    Args:
        table: Octets after the table's length; not kept.

    Returns:
        Octets of a table that `decode_headers` accepts, and all the others.
    """
    if len(table) > HEADERS_BYTES_MAX:
        return b"", table
    entry = position = 0
    try:
        while position < len(table):
            _, position = _value(table, position + 1 + table[position], 1, dict)
            if position > len(table):
                break
            entry = position
    except (MalformedHeadersError, struct.error, IndexError):
        pass
    return table[:entry], table[entry:]


def _raw(value: HeaderValue) -> bytes | None:
    if isinstance(value, bytes):
        return value
    text = _text(value)
    return None if text is None else text.encode()


def _text(value: HeaderValue) -> str | None:
    # By exact type, the common ones first: this runs for each header of each message.
    kind = type(value)
    if kind is str or value is None:
        return value  # type: ignore[return-value]
    if kind is int or kind is Decimal:
        return str(value)
    if kind is bool:
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else _not_finite(value)
    return json.dumps(_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _json(value: HeaderValue) -> HeaderValue:
    """Return a value in which text replaces everything that JSON cannot express."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, float) and not math.isfinite(value):
        return _not_finite(value)
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return value


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _all_pairs(table: bytes, as_table: _AsTable) -> _Pairs:
    if len(table) > HEADERS_BYTES_MAX:
        raise MalformedHeadersError(f"headers of {len(table)} bytes: maximum {HEADERS_BYTES_MAX}")
    try:
        return _pairs(table, 0, len(table), 1, as_table)
    except (struct.error, IndexError) as error:
        raise MalformedHeadersError(f"headers are cut short: {error}") from error


def _pairs(data: bytes, position: int, end: int, depth: int, as_table: _AsTable) -> _Pairs:
    entries: _Pairs = []
    while position < end:
        start = position + 1
        position = start + data[position]
        key = data[start:position].decode("utf-8", "replace")
        value, position = _value(data, position, depth, as_table)
        entries.append((key, value))
    # An entry may have read past its own table into the octets after it; this detects that.
    if position != end:
        raise MalformedHeadersError(f"an entry passes the end of its table at byte {end}")
    return entries


def _items(
    data: bytes, position: int, end: int, depth: int, as_table: _AsTable
) -> list[HeaderValue]:
    items: list[HeaderValue] = []
    while position < end:
        item, position = _value(data, position, depth, as_table)
        items.append(item)
    if position != end:
        raise MalformedHeadersError(f"an item passes the end of its array at byte {end}")
    return items


def _value(data: bytes, position: int, depth: int, as_table: _AsTable) -> tuple[HeaderValue, int]:
    kind = data[position]
    position += 1
    if number := _NUMBERS.get(kind):
        return number.unpack_from(data, position)[0], position + number.size
    if kind == _BOOLEAN:
        return data[position] != 0, position + 1
    if kind == _VOID:
        return None, position
    if kind == _SCALED:
        scale, unscaled = _DECIMAL.unpack_from(data, position)
        return Decimal(f"{unscaled}E-{scale}"), position + _DECIMAL.size
    if kind not in {_TEXT, _OCTETS, _TABLE, _ARRAY}:
        raise MalformedHeadersError(f"unknown kind {bytes((kind,))!r} at byte {position - 1}")
    start = position + _LENGTH.size
    end = start + _LENGTH.unpack_from(data, position)[0]
    if end > len(data):
        raise MalformedHeadersError(f"a value at byte {position} passes the end of the table")
    if kind == _TEXT:
        return _decode_text(data[start:end]), end
    if kind == _OCTETS:
        return data[start:end], end
    if depth == HEADERS_DEPTH_MAX:
        raise MalformedHeadersError(f"tables nest more than {HEADERS_DEPTH_MAX} levels")
    if kind == _TABLE:
        return as_table(_pairs(data, start, end, depth + 1, as_table)), end
    return _items(data, start, end, depth + 1, as_table), end


def _decode_text(raw: bytes) -> str | bytes:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
