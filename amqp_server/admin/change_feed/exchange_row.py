"""The row of an exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.values import text_json
from amqp_server.definitions_file.json_arguments import plain_from_table

if TYPE_CHECKING:
    from amqp_server.admin.change_feed.row import Attributes
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.virtual_host import VirtualHost

EXCHANGE_COLUMNS: Final = (
    "policy",
    "bindings",
    "publish_in",
    "publish_out",
    "confirm",
    "return_unroutable",
    "drop_unroutable",
)
"""Names of the values in the row of an exchange."""


def exchange_attributes(exchange: Exchange, vhost: VirtualHost) -> Attributes:
    """Return what never changes of an exchange."""
    return {
        **text_json("name", exchange.name),
        **text_json("vhost", vhost.name),
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain_from_table(exchange.arguments),
    }


def exchange_values(exchange: Exchange) -> list[Any]:
    """Return the values of an exchange, in the order of `EXCHANGE_COLUMNS`."""
    user = exchange.policy.user
    counters = exchange.counters
    return [
        None if user is None else user.name,
        len(exchange.bindings),
        counters.publish,
        counters.routed,
        counters.confirm,
        counters.return_unroutable,
        counters.drop_unroutable,
    ]
