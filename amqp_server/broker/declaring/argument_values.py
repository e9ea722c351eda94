"""Checks of single argument values; they describe faults in RabbitMQ's words.

A check takes the value and the table that contains it, and returns the fault or None.

Source: RabbitMQ `rabbit_amqqueue` (`check_int_arg` and similar functions), texts of 3.10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from amqp_server.broker.age_text import age_ns
from amqp_server.protocol.field_comparison import INTEGER_KINDS, type_name
from amqp_server.protocol.field_values import FieldValue, Table

if TYPE_CHECKING:
    from collections.abc import Collection

ValueCheck = Callable[[FieldValue, Table], str | None]

TIMEOUT_MS_MAX = 315_360_000_000
"""Ten years, RabbitMQ's limit: the highest `x-expires` and `x-message-ttl`."""


def any_value(_value: FieldValue, _arguments: Table) -> str | None:
    """Accept any value."""
    return None


def integer(value: FieldValue, _arguments: Table) -> str | None:
    """Accept integers of any width."""
    return None if value.kind in INTEGER_KINDS else f'"expected integer, got {type_name(value)}"'


def not_negative(value: FieldValue, arguments: Table) -> str | None:
    """Accept integers from 0."""
    fault = integer(value, arguments)
    if fault is None and number(value) < 0:
        return f"{{value_negative,{number(value)}}}"
    return fault


def positive(value: FieldValue, arguments: Table) -> str | None:
    """Accept integers from 1."""
    fault = not_negative(value, arguments)
    return "{value_zero,0}" if fault is None and number(value) == 0 else fault


def duration(value: FieldValue, arguments: Table) -> str | None:
    """Accept milliseconds from 0 to ten years."""
    fault = not_negative(value, arguments)
    if fault is None and number(value) > TIMEOUT_MS_MAX:
        return f"{{value_too_large,{number(value)}}}"
    return fault


def duration_if_integer(value: FieldValue, arguments: Table) -> str | None:
    """Take milliseconds from 0 to ten years, and values of other types, which mean nothing."""
    return duration(value, arguments) if value.kind in INTEGER_KINDS else None


def positive_duration(value: FieldValue, arguments: Table) -> str | None:
    """Accept milliseconds from 1 to ten years."""
    return duration(value, arguments) or positive(value, arguments)


def truth(value: FieldValue, _arguments: Table) -> str | None:
    """Accept booleans."""
    return None if value.kind == b"t" else unacceptable(value)


def text(value: FieldValue, _arguments: Table) -> str | None:
    """Accept long strings."""
    return None if value.kind == b"S" else unacceptable(value)


def age(value: FieldValue, arguments: Table) -> str | None:
    """Accept a duration as a text such as `7D`."""
    fault = text(value, arguments)
    if fault is None and isinstance(value.value, bytes) and age_ns(value.value) is None:
        return "invalid_max_age"
    return fault


def one_of(choices: Collection[str], *, otherwise: str) -> ValueCheck:
    """Return a check for one of some texts; `otherwise` is the fault, with `{}` for the text."""

    def fault(value: FieldValue, _arguments: Table) -> str | None:
        if value.kind != b"S" or not isinstance(value.value, bytes):
            return unacceptable(value)
        shown = value.value.decode("utf-8", "replace")
        return None if shown in choices else otherwise.format(shown)

    return fault


def unacceptable(value: FieldValue) -> str:
    """Return the fault of a value with a wrong type."""
    return f"{{unacceptable_type,{type_name(value)}}}"


def number(value: FieldValue) -> int:
    """Return the value of an argument that was checked to be an integer."""
    assert isinstance(value.value, int), "the value must be checked before"
    return value.value
