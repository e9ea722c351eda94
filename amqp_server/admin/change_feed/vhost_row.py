"""The row of a virtual host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.change_feed.totals import message_stats
from amqp_server.admin.views.values import text_json

if TYPE_CHECKING:
    from amqp_server.admin.change_feed.row import Attributes
    from amqp_server.broker.virtual_host import VirtualHost

VHOST_COLUMNS: Final = ("metadata", "tracing", "connections", "recv_oct", "send_oct", "stats")
"""Names of the values in the row of a virtual host."""


def vhost_attributes(vhost: VirtualHost) -> Attributes:
    """Return what never changes of a virtual host."""
    return text_json("name", vhost.name)


def vhost_values(vhost: VirtualHost) -> list[Any]:
    """Return the values of a virtual host, in the order of `VHOST_COLUMNS`."""
    counters = vhost.counters
    return [
        dict(vhost.metadata),
        vhost.firehose is not None,
        vhost.connection_count,
        counters.recv_oct,
        counters.send_oct,
        message_stats(counters),
    ]
