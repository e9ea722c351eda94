"""channel.*: methods on an open channel. The session opens channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.connections.handlers.handler import Handlers
from amqp_server.protocol.errors import ChannelError, NotImplementedAmqp
from amqp_server.protocol.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.channel import Channel


def open_again(_channel: Channel, _method: ChannelOpen) -> None:
    """Refuse to open an open channel."""
    raise ChannelError("second 'channel.open' seen")


def close(channel: Channel, _method: ChannelClose) -> Iterator[None]:
    """Close the channel; its number is free as soon as the client reads the reply."""
    channel.client.forget_channel(channel.number)
    yield from channel.close()
    channel.send(ChannelCloseOk())


def flow(channel: Channel, method: ChannelFlow) -> None:
    """Confirm that deliveries flow; stopping them is refused, as in RabbitMQ."""
    if not method.active:
        raise NotImplementedAmqp("active=false")
    channel.send(ChannelFlowOk(active=True))


CHANNEL_HANDLERS: Handlers = {
    ChannelOpen: open_again,
    ChannelClose: close,
    ChannelFlow: flow,
}
