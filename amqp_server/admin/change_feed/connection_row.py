"""The row of a client's connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amqp_server.admin.views.values import text_json
from amqp_server.definitions_file.json_arguments import plain_from_table

if TYPE_CHECKING:
    from amqp_server.admin.change_feed.row import Attributes
    from amqp_server.connections.open_connections import Connection

CONNECTION_COLUMNS: Final = (
    "state",
    "channels",
    "recv_oct",
    "recv_cnt",
    "send_oct",
    "send_cnt",
    "send_pend",
)
"""Names of the values in the row of a connection."""


def connection_attributes(connection: Connection) -> Attributes:
    """Return what never changes of a connection that is open."""
    names = connection.names
    handshake = connection.handshake
    attributes = {
        "name": connection.name,
        **text_json("user", connection.user),
        **text_json("vhost", connection.vhost),
        "user_provided_name": connection.client_name,
        "connected_at": connection.octets.connected_ms,
        "peer_host": names.peer_host,
        "peer_port": _port(names.peer),
        "host": _host(names.local),
        "port": _port(names.local),
        "ssl": False,
        **connection.shown_tls,
    }
    if handshake is not None:
        attributes |= {
            "auth_mechanism": handshake.mechanism,
            "channel_max": handshake.channel_max,
            "frame_max": handshake.frame_max,
            "timeout": handshake.heartbeat_seconds,
            "client_properties": plain_from_table(handshake.client_properties),
        }
    return attributes


def connection_values(connection: Connection) -> list[Any]:
    """Return the values of a connection, in the order of `CONNECTION_COLUMNS`."""
    octets = connection.octets
    return [
        connection.state,
        connection.channel_count,
        octets.recv_oct,
        octets.recv_cnt,
        octets.send_oct,
        octets.send_cnt,
        connection.unread_bytes,
    ]


def _host(address: object) -> str:
    return str(address[0]) if isinstance(address, tuple) and address else "127.0.0.1"


def _port(address: object) -> int:
    if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[1], int):
        return address[1]
    return 0
