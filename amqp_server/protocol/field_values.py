"""The values of a field table, each with the kind it had on the wire.

A table keeps kinds because a client that sends a 16-bit 7 must get a 16-bit 7 back, and because
RabbitMQ's error texts name them.

Source: AMQP 0-9-1 specification, section 4.2.5.5, with the kinds that RabbitMQ gives to the
letters where the specification and the brokers differ (`s` is 16 bits, `l` and `L` are 64).
"""

from collections.abc import Mapping
from typing import NamedTuple

TABLE_DEPTH_MAX = 64
"""Levels of tables and arrays inside each other, the outermost table included."""

_INT32_MIN = -(2**31)
_INT32_MAX = 2**31 - 1


class DecimalValue(NamedTuple):
    """The decimal number `unscaled / 10**scale`.

    Attributes:
        scale: Digits after the point, 0 to 255.
        unscaled: Signed 32-bit integer.
    """

    scale: int
    unscaled: int


class FieldValue(NamedTuple):
    """One value of a field table or array.

    Attributes:
        kind: One byte. `t` bool; `b` `s` `I` `l` `L` signed integers of 1, 2, 4, 8 and 8 bytes;
            `B` `u` `i` unsigned ones of 1, 2 and 4; `f` `d` floats of 4 and 8; `D` decimal;
            `S` long string and `x` byte array, both bytes; `T` timestamp, unsigned seconds;
            `A` array; `F` table; `V` void.
        value: What that kind holds.
    """

    kind: bytes
    value: "FieldData"


FieldData = (
    bool | int | float | bytes | DecimalValue | list[FieldValue] | dict[str, FieldValue] | None
)

Table = dict[str, FieldValue]
"""Keys in the order they were sent; of a key sent twice the last value counts."""

VOID = FieldValue(b"V", None)

PythonValue = (
    bool
    | int
    | float
    | str
    | bytes
    | FieldValue
    | list["PythonValue"]
    | Mapping[str, "PythonValue"]
    | None
)
"""What `field_value` takes: plain Python values, and `FieldValue` where the kind matters."""


def field_value(value: PythonValue) -> FieldValue:
    """Wrap a plain Python value in the kind that clients commonly send for it.

    bool is `t`, int is `I` when 32 bits hold it and else `l`, float is `d`, str (as UTF-8) and
    bytes are `S`, list is `A`, mapping is `F`, None is `V`; a `FieldValue` stays what it is.
    """
    match value:
        case FieldValue():
            return value
        case None:
            return VOID
        case bool():
            return FieldValue(b"t", value)
        case int():
            return FieldValue(b"I" if _INT32_MIN <= value <= _INT32_MAX else b"l", value)
        case float():
            return FieldValue(b"d", value)
        case str():
            return FieldValue(b"S", value.encode("utf-8", "surrogateescape"))
        case bytes():
            return FieldValue(b"S", value)
        case list():
            return FieldValue(b"A", [field_value(item) for item in value])
        case _:
            return FieldValue(b"F", table_of(value))


def table_of(values: Mapping[str, PythonValue]) -> Table:
    """Build a table from plain Python values, each wrapped as `field_value` does."""
    return {name: field_value(value) for name, value in values.items()}
