"""Arguments of exchanges: checked before an exchange is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import type_name

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table


def check_alternate(exchange: str, vhost: str, arguments: Table) -> None:
    """Check a new exchange's `alternate-exchange`, if it has one.

    Raises:
        PreconditionFailed: It is not a string.
    """
    value = arguments.get("alternate-exchange")
    if value is not None and value.kind != b"S":
        raise PreconditionFailed(
            f"invalid type '{type_name(value)}' for arg 'alternate-exchange' "
            f"in exchange '{exchange}' in vhost '{vhost}'"
        )
