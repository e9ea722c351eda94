"""Deletes exchanges."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.declaring.names import clean_name, is_reserved, refuse_default
from amqp_server.operations.applied import Applied, deleted
from amqp_server.operations.deferring import when_deleted
from amqp_server.protocol.errors import AccessRefused, PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.operations.applied import Operation
    from amqp_server.protocol.methods import ExchangeDelete


def delete_exchange(channel: Channel, method: ExchangeDelete) -> Operation[None]:
    """Delete an exchange; a missing one counts as deleted.

    Raises:
        AmqpError: The client may not, the exchange is predeclared, or it is not unused.
    """
    name = clean_name(method.exchange)
    refuse_default(name)
    vhost = channel.virtual_host
    if is_reserved(name):
        raise AccessRefused(
            f"deletion of system exchange '{name}' in vhost '{vhost.name}' not allowed"
        )
    channel.client.rights.require(Right.CONFIGURE, "exchange", name)
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        if not vhost.damaged.is_exchange(name):
            removed = channel.broker.definitions.make_exchange_removed(vhost.name, name)
            return Applied(None, removed)
        return deleted(channel.broker.delete_damaged_exchange(vhost, name, channel), None)
    if method.if_unused and exchange.bindings:
        # The queues that they lead to may be deleted.
        pending = partial(vhost.deletions.that_unbinds, exchange)
        if pending() is not None:
            return when_deleted(pending, channel, delete_exchange, method)
        raise PreconditionFailed(f"exchange '{name}' in vhost '{vhost.name}' in use")
    return deleted(channel.broker.delete_exchange(vhost, exchange, channel), None)
