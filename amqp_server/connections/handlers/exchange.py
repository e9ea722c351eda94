"""exchange.*: declare, delete, bind and unbind exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.connections.handlers.handler import Handlers
from amqp_server.connections.handlers.replies import reply_to
from amqp_server.operations.binding import bind_exchange, unbind_exchange
from amqp_server.operations.exchange_declaring import declare_exchange
from amqp_server.operations.exchange_deleting import delete_exchange
from amqp_server.protocol.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
)

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.connections.handlers.handler import Outcome


def declare(channel: Channel, method: ExchangeDeclare) -> Outcome:
    """Create an exchange, or check that the existing one has the same properties."""
    reply = None if method.no_wait else ExchangeDeclareOk()
    return reply_to(channel, declare_exchange(channel, method), lambda _: reply)


def delete(channel: Channel, method: ExchangeDelete) -> Outcome:
    """Delete an exchange."""
    reply = None if method.no_wait else ExchangeDeleteOk()
    return reply_to(channel, delete_exchange(channel, method), lambda _: reply)


def bind(channel: Channel, method: ExchangeBind) -> Outcome:
    """Bind an exchange to another."""
    reply = None if method.no_wait else ExchangeBindOk()
    return reply_to(channel, bind_exchange(channel, method), lambda _: reply)


def unbind(channel: Channel, method: ExchangeUnbind) -> Outcome:
    """Unbind an exchange from another."""
    reply = None if method.no_wait else ExchangeUnbindOk()
    return reply_to(channel, unbind_exchange(channel, method), lambda _: reply)


EXCHANGE_HANDLERS: Handlers = {
    ExchangeDeclare: declare,
    ExchangeDelete: delete,
    ExchangeBind: bind,
    ExchangeUnbind: unbind,
}
