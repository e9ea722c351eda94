"""Converts field tables to and from JSON for the metadata files; exact, and easy to read.

    JSON                              field value
    true, false                       kind `t`
    number without a point            kind `I`
    number with a point or exponent   kind `d`, finite
    string                            kind `S` that is UTF-8
    null                              kind `V`
    array                             kind `A`
    object                            one value of any other kind, or one without a JSON form:
        {"kind": "l", "value": 5}                    integers of other widths, `T`, finite `f`
        {"kind": "S", "base64": "/w=="}              `S` that is not UTF-8, `x`
        {"kind": "d", "bits": "7ff8000000000000"}    infinities and NaN, `d` or `f`
        {"kind": "D", "scale": 2, "unscaled": 314}   decimal
        {"kind": "F", "value": {...}}                table

A table itself is an object from key to value. A key that is not UTF-8, or that begins with
"base64:", is written as "base64:" and the base64 of its bytes.
"""

import base64
import math
import struct
from typing import Any

from amqp_server.protocol.field_values import (
    TABLE_DEPTH_MAX,
    VOID,
    DecimalValue,
    FieldValue,
    Table,
)

_ESCAPED_KEY = "base64:"
_INTEGER_BITS = {
    "b": (8, True),
    "B": (8, False),
    "s": (16, True),
    "u": (16, False),
    "I": (32, True),
    "i": (32, False),
    "l": (64, True),
    "L": (64, True),
    "T": (64, False),
}


def table_to_json(table: Table) -> dict[str, Any]:
    """Return a table as a dict that any JSON library can write.

    Args:
        table: Decoded table, or one whose values are in the ranges of their kinds; not kept.
    """
    return {_key_to_json(key): _value_to_json(value) for key, value in table.items()}


def table_from_json(document: dict[str, Any]) -> Table:
    """Return the table that `table_to_json` converted, with the same kinds and bits.

    Raises:
        ValueError: `table_to_json` cannot have written the document.
    """
    try:
        return _table_from_json(document, 1)
    except (AttributeError, ValueError, struct.error) as error:
        raise ValueError(f"not a field table: {error}") from error


def _key_to_json(key: str) -> str:
    raw = key.encode("utf-8", "surrogateescape")
    if _is_utf8(raw) and not key.startswith(_ESCAPED_KEY):
        return key
    return _ESCAPED_KEY + base64.b64encode(raw).decode("ascii")


def _key_from_json(key: str) -> str:
    if not key.startswith(_ESCAPED_KEY):
        key.encode("utf-8")  # refuses the lone surrogates that a JSON escape can smuggle in
        return key
    raw = base64.b64decode(key.removeprefix(_ESCAPED_KEY), validate=True)
    return raw.decode("utf-8", "surrogateescape")


def _value_to_json(field: FieldValue) -> Any:  # noqa: ANN401 - JSON has no narrower type
    kind = field.kind.decode("ascii")
    match field:
        case FieldValue(b"t" | b"I" | b"V", value):
            return value
        case FieldValue(b"S" | b"x", bytes(raw)):
            if kind == "S" and _is_utf8(raw):
                return raw.decode("utf-8")
            return {"kind": kind, "base64": base64.b64encode(raw).decode("ascii")}
        case FieldValue(b"d" | b"f", float(number)):
            if not math.isfinite(number):
                return {"kind": kind, "bits": struct.pack(">d", number).hex()}
            return number if kind == "d" else {"kind": kind, "value": number}
        case FieldValue(b"A", list(items)):
            return [_value_to_json(item) for item in items]
        case FieldValue(b"F", dict(entries)):
            return {"kind": kind, "value": table_to_json(entries)}
        case FieldValue(b"D", DecimalValue(scale, unscaled)):
            return {"kind": kind, "scale": scale, "unscaled": unscaled}
        case _:
            return {"kind": kind, "value": field.value}


def _table_from_json(document: dict[str, Any], depth: int) -> Table:
    _check_depth(depth)
    return {_key_from_json(key): _value_from_json(item, depth) for key, item in document.items()}


def _value_from_json(item: Any, depth: int) -> FieldValue:  # noqa: ANN401 - from a JSON parser
    match item:
        case None:
            return VOID
        case bool():
            return FieldValue(b"t", item)
        case int():
            return _integer("I", item)
        case float():
            return FieldValue(b"d", item)
        case str():
            return FieldValue(b"S", item.encode("utf-8"))
        case list():
            _check_depth(depth + 1)
            return FieldValue(b"A", [_value_from_json(inner, depth + 1) for inner in item])
        case dict():
            return _tagged_from_json(item, depth)
        case _:
            raise ValueError(f"not a field value: {type(item).__name__}")


def _tagged_from_json(item: dict[str, Any], depth: int) -> FieldValue:
    match item:
        case {"kind": "F", "value": dict(entries)}:
            return FieldValue(b"F", _table_from_json(entries, depth + 1))
        case {"kind": "S" | "x" as kind, "base64": str(text)}:
            return FieldValue(kind.encode("ascii"), base64.b64decode(text, validate=True))
        case {"kind": "d" | "f" as kind, "bits": str(text)}:
            return FieldValue(kind.encode("ascii"), struct.unpack(">d", bytes.fromhex(text))[0])
        case {"kind": "f", "value": float(number)}:
            return FieldValue(b"f", number)
        case {"kind": "D", "scale": int(scale), "unscaled": int(unscaled)}:
            _integer("B", scale)
            _integer("I", unscaled)
            return FieldValue(b"D", DecimalValue(scale, unscaled))
        case {"kind": str(kind), "value": int(number)} if kind in _INTEGER_BITS:
            return _integer(kind, number)
        case _:
            raise ValueError(f"not a field value: {item!r:.100}")


def _integer(kind: str, number: int) -> FieldValue:
    bits, is_signed = _INTEGER_BITS[kind]
    low, high = (-(1 << bits - 1), 1 << bits - 1) if is_signed else (0, 1 << bits)
    if not low <= number < high:
        raise ValueError(f"{number} is out of the range of field kind {kind}")
    return FieldValue(kind.encode("ascii"), number)


def _check_depth(depth: int) -> None:
    if depth > TABLE_DEPTH_MAX:
        raise ValueError(f"field table nests more than {TABLE_DEPTH_MAX} levels")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
