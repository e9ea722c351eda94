"""access.*: tickets of AMQP 0-9, for old clients that request them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.connections.handlers.handler import Handlers
from amqp_server.protocol.methods import AccessRequest, AccessRequestOk

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel


def request(channel: Channel, method: AccessRequest) -> None:
    """Grant the only ticket; it has no effect."""
    channel.send(AccessRequestOk())


ACCESS_HANDLERS: Handlers = {AccessRequest: request}
