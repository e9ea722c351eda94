"""The methods of channel 0 from the protocol header to `connection.open-ok`; no sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.protocol.field_values import table_of
from amqp_server.protocol.methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqp_server.shovel.link.errors import LinkClosed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.protocol.field_values import PythonValue, Table
    from amqp_server.protocol.methods import Method
    from amqp_server.shovel.link.amqp_uri import AmqpUri

FRAME_BYTES_MAX: Final = 1024 * 1024
"""Largest frame that we agree to."""
FRAME_BYTES_MIN: Final = 4096
CHANNELS_MAX: Final = 64
HEARTBEAT_SECONDS: Final = 60
"""Interval that we ask for if neither the address nor the peer has one."""
_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
)


class Handshake:
    """Answers the server until the connection is open.

    Args:
        uri: Address with user, virtual host and what is asked for.
        client_properties: Properties beside the capabilities.

    Attributes:
        is_open: Whether the connection is open.
        frame_max: Largest frame in octets, framing included.
        channel_max: Highest channel number.
        heartbeat_seconds: Interval of heartbeats; 0: none.
        server_properties: Properties of the server.
    """

    def __init__(self, uri: AmqpUri, client_properties: Mapping[str, PythonValue]) -> None:
        self._uri = uri
        self._properties = table_of(
            {**client_properties, "capabilities": dict.fromkeys(_CAPABILITIES, True)}
        )
        self._expected: type[Method] = ConnectionStart
        self.is_open = False
        self.frame_max = FRAME_BYTES_MIN
        self.channel_max = 0
        self.heartbeat_seconds = 0
        self.server_properties: Table = {}

    def answer(self, method: Method) -> list[Method]:
        """Return what to answer a method of the server.

        Raises:
            LinkClosed: The server refuses, or does what this client cannot do.
        """
        if isinstance(method, ConnectionClose):
            raise LinkClosed(method.reply_code, method.reply_text)
        if isinstance(method, ConnectionSecure):
            raise LinkClosed(0, "the peer asks for another round of the login")
        if type(method) is not self._expected:
            raise LinkClosed(0, f"the peer sent {method.name} during the login")
        if isinstance(method, ConnectionStart):
            self._expected = ConnectionTune
            return [self._start(method)]
        if isinstance(method, ConnectionTune):
            self._expected = ConnectionOpenOk
            vhost = "/" if self._uri.vhost is None else self._uri.vhost
            return [self._tune(method), ConnectionOpen(virtual_host=vhost)]
        self.is_open = True
        return []

    def _start(self, method: ConnectionStart) -> Method:
        self.server_properties = method.server_properties
        mechanism = self._uri.mechanism
        if mechanism.encode() not in method.mechanisms.split():
            offered = method.mechanisms.decode("utf-8", "replace")
            raise LinkClosed(0, f"the peer offers no login by {mechanism}, but {offered}")
        response = b""
        if mechanism == "PLAIN":
            user = "guest" if self._uri.user is None else self._uri.user
            password = "guest" if self._uri.password is None else self._uri.password
            response = b"\0" + user.encode() + b"\0" + password.encode()
        return ConnectionStartOk(
            client_properties=self._properties, mechanism=mechanism, response=response
        )

    def _tune(self, method: ConnectionTune) -> Method:
        """Settle the limits: 0 of the peer is no limit, or none asked for."""
        self.frame_max = min(method.frame_max or FRAME_BYTES_MAX, FRAME_BYTES_MAX)
        if self.frame_max < FRAME_BYTES_MIN:
            raise LinkClosed(0, f"the peer wants frames of at most {method.frame_max} octets")
        wanted = self._uri.channel_max or CHANNELS_MAX
        self.channel_max = min(method.channel_max or wanted, wanted)
        asked = self._uri.heartbeat
        if asked is None:
            asked = method.heartbeat or HEARTBEAT_SECONDS
        self.heartbeat_seconds = min(asked, method.heartbeat) if method.heartbeat else asked
        return ConnectionTuneOk(
            channel_max=self.channel_max,
            frame_max=self.frame_max,
            heartbeat=self.heartbeat_seconds,
        )
