"""Checks of the arguments of a new exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import type_name

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table


def check_alternate(exchange: str, vhost: str, arguments: Table) -> None:
    """Check the argument `alternate-exchange` of a new exchange, if there is one.

    Raises:
        PreconditionFailed: The argument is not a string.
    """
    value = arguments.get("alternate-exchange")
    if value is not None and value.kind != b"S":
        raise PreconditionFailed(
            f"invalid type '{type_name(value)}' for arg 'alternate-exchange' "
            f"in exchange '{exchange}' in vhost '{vhost}'"
        )
