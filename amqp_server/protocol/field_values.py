"""Values of a field table, each with its kind on the wire.

A table keeps the kinds for two reasons: a client that sends a 16-bit 7 must get a 16-bit 7 back,
and RabbitMQ's error texts name them.

Source: AMQP 0-9-1 specification, section 4.2.5.5. Where it and the brokers differ, the kinds are
RabbitMQ's (`s` is 16 bits, `l` and `L` are 64).
"""

from collections.abc import Mapping
from typing import NamedTuple

TABLE_DEPTH_MAX = 64
"""Levels of nested tables and arrays, the outermost table included."""

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
        value: The value, of the Python type for that kind.
    """

    kind: bytes
    value: "FieldData"


FieldData = (
    bool | int | float | bytes | DecimalValue | list[FieldValue] | dict[str, FieldValue] | None
)

Table = dict[str, FieldValue]
"""Entries in the order in which they were sent; of a repeated key the last value counts."""

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
"""Argument of `field_value`: a plain Python value, or a `FieldValue` where the kind matters."""


def field_value(value: PythonValue) -> FieldValue:
    """Wrap a plain Python value in the kind that clients commonly send for it.

    A bool becomes `t`; an int `I` if it fits 32 bits, otherwise `l`; a float `d`; str (as UTF-8)
    and bytes `S`; a list `A`; a mapping `F`; None `V`. A `FieldValue` is returned unchanged.
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
    """Return a table of plain Python values, each wrapped as `field_value` does."""
    return {name: field_value(value) for name, value in values.items()}
