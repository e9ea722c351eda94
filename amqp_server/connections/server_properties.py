"""Properties of the server in `connection.start`: its name and capabilities."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

from amqp_server.protocol.field_values import table_of

if TYPE_CHECKING:
    from amqp_server.base.config import ServerConfig
    from amqp_server.protocol.field_values import Table

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
"""Capabilities that the broker really has: clients switch features on by them."""


def server_properties(config: ServerConfig) -> Table:
    """Return the server-properties table, with the keys that RabbitMQ uses."""
    return table_of(
        {
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "cluster_name": f"amqp-server@{socket.gethostname()}",
            "copyright": "Copyright (c) the authors of amqp-server",
            "information": "Licensed under the Apache License 2.0",
            "platform": f"Python {sys.version.split()[0]}",
            "product": config.present_product,
            "version": config.present_version,
        }
    )
