"""Converts field tables to and from the plain JSON of RabbitMQ's tools.

Inwards an integer is a field of 64 bits (`l`), a number with a point a double (`d`), a text a long
string (`S`). Outwards the width of a number is lost, as in RabbitMQ.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import orjson

from amqp_server.protocol.field_values import (
    TABLE_DEPTH_MAX,
    VOID,
    DecimalValue,
    FieldValue,
)

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table

_KEY_BYTES_MAX: Final = 255
_INTEGERS: Final = range(-(1 << 63), 1 << 63)


def table_from_plain(fields: dict[str, Any]) -> Table:
    """Return a JSON object as a field table.

    Raises:
        ValueError: A key is too long, a number too large, or the object nests too deep.
    """
    return _table(fields, 1)


def plain_from_table(table: Table) -> dict[str, Any]:
    """Return a field table as a JSON object; octets that are not UTF-8 are replaced."""
    return {
        _plain_text(key.encode("utf-8", "surrogateescape")): _plain(table[key]) for key in table
    }


def is_same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal; 1, 1.0 and true are not."""
    option = orjson.OPT_SORT_KEYS
    return orjson.dumps(one, option=option) == orjson.dumps(other, option=option)


def _table(fields: dict[str, Any], depth: int) -> Table:
    _check_depth(depth)
    table: Table = {}
    for key, value in fields.items():
        if len(key.encode()) > _KEY_BYTES_MAX:
            raise ValueError(f"the key {key!r:.50} is longer than {_KEY_BYTES_MAX} bytes")
        table[key] = _field(value, depth)
    return table


def _field(value: Any, depth: int) -> FieldValue:  # noqa: ANN401 - from a JSON parser
    match value:
        case None:
            return VOID
        case bool():
            return FieldValue(b"t", value)
        case int():
            if value not in _INTEGERS:
                raise ValueError(f"{value} has more than 64 bits")
            return FieldValue(b"l", value)
        case float():
            return FieldValue(b"d", value)
        case str():
            return FieldValue(b"S", value.encode())
        case list():
            _check_depth(depth + 1)
            return FieldValue(b"A", [_field(each, depth + 1) for each in value])
        case _:
            return FieldValue(b"F", _table(value, depth + 1))


def _plain(field: FieldValue) -> Any:  # noqa: ANN401 - JSON has no narrower type
    match field.value:
        case bytes(octets):
            return _plain_text(octets)
        case list(items):
            return [_plain(each) for each in items]
        case dict(entries):
            return plain_from_table(entries)
        case DecimalValue(scale, unscaled):
            return unscaled / 10**scale
        case float(number) if not math.isfinite(number):
            return None
        case value:
            return value


def _plain_text(octets: bytes) -> str:
    return octets.decode("utf-8", "replace")


def _check_depth(depth: int) -> None:
    if depth > TABLE_DEPTH_MAX:
        raise ValueError(f"nests more than {TABLE_DEPTH_MAX} levels")
