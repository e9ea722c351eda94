"""Checks of the arguments of a consumer group's members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.declaring.argument_values import text, truth
from amqp_server.broker.subscriptions.joining import GROUP
from offsets import InvalidGroupNameError, check_group_name

if TYPE_CHECKING:
    from amqp_server.protocol.field_values import FieldValue, Table


def group_name_fault(value: FieldValue, arguments: Table) -> str | None:
    """Return the fault of a group's name, or None."""
    fault = text(value, arguments)
    if fault is not None or not isinstance(value.value, bytes):
        return fault
    try:
        check_group_name(value.value.decode("utf-8", "surrogateescape"))
    except InvalidGroupNameError as error:
        return str(error)
    return None


def reset_fault(value: FieldValue, arguments: Table) -> str | None:
    """Return the fault of `x-offset-reset`, or None; it needs a group."""
    fault = truth(value, arguments)
    if fault is None and GROUP not in arguments:
        return f"it needs {GROUP}"
    return fault
