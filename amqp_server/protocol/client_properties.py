"""Client properties, as they are kept: all that programs send, within a bound of memory."""

from __future__ import annotations

from sys import getsizeof
from typing import Final

from amqp_server.protocol.field_values import FieldData, FieldValue, Table

KEPT_BYTES_MAX: Final = 32 * 1024
"""Most bytes of memory that the properties of one client take."""
VALUE_BYTES: Final = 256
"""Bytes that one value takes beside its text: its object, its kind, and its place in a table."""
_FIRST: Final = ("connection_name", "product", "version", "platform", "capabilities")
"""Properties that the broker itself uses or logs; they have room first, in this order."""


def kept_properties(properties: Table) -> Table:
    """Return the properties to keep while the client is connected, in the order they came in.

    A login has up to 64 KiB, and thousands of values. Values that do not fit are left out whole,
    the last ones of tables and arrays first.
    """
    kept: Table = {}
    first: Table = {name: properties[name] for name in _FIRST if name in properties}
    others = {name: properties[name] for name in properties if name not in _FIRST}
    fitting, room = _fit_table(first, KEPT_BYTES_MAX)
    kept |= fitting
    kept |= _fit_table(others, room)[0]
    return {name: kept[name] for name in properties if name in kept}


def _fit_table(table: Table, room: int) -> tuple[Table, int]:
    """Return the entries that fit into `room` bytes, and what is left of it."""
    kept: Table = {}
    for name, value in table.items():
        fitting, left = _fit(value, room - getsizeof(name))
        if fitting is not None:
            kept[name] = fitting
            room = left
    return kept, room


def _fit(field: FieldValue, room: int) -> tuple[FieldValue | None, int]:
    """Return a value as far as it fits, and the room that is left; None if nothing of it does."""
    value = field.value
    left = room - VALUE_BYTES
    if isinstance(value, bytes):
        left -= len(value)
    if left < 0:
        return None, room
    kept: FieldData
    if isinstance(value, dict):
        kept, left = _fit_table(value, left)
    elif isinstance(value, list):
        kept = []
        for each in value:
            fitting, left = _fit(each, left)
            if fitting is None:
                break
            kept.append(fitting)
    else:
        return field, left
    return FieldValue(field.kind, kept), left
