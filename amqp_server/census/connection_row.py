"""The row of a client's connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.views.values import text_json

if TYPE_CHECKING:
    from amqp_server.census.row import Facts
    from amqp_server.connections import Connection

CONNECTION_COLUMNS: Final = ("state", "channels", "send_pend")
"""Names of the values in the row of a connection."""


def connection_facts(connection: Connection) -> Facts:
    """Return what never changes of a connection that is open."""
    return {
        "name": connection.name,
        **text_json("user", connection.user),
        **text_json("vhost", connection.vhost),
        "user_provided_name": connection.client_name,
    }


def connection_values(connection: Connection) -> list[Any]:
    """Return the values of a connection, in the order of `CONNECTION_COLUMNS`."""
    return ["running", connection.channel_count, connection.unread_bytes]
