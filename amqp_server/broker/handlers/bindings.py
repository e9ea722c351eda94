"""What binding a queue and binding an exchange have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.binding import binding_identity
from amqp_server.broker.handlers.answers import answer
from amqp_server.broker.handlers.room import check_room

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.binding import Destination
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.exchange import Exchange
    from amqp_server.protocol.methods import Method
    from amqp_server.protocol.tables import Table


def make_binding(
    channel: Channel,
    source: Exchange,
    destination: Destination,
    key: str,
    arguments: Table,
    reply: Method | None,
) -> Awaitable[None] | None:
    """Bind and answer; the same binding twice is one.

    Raises:
        PreconditionFailed: There are as many bindings as there may be.
    """
    vhost = channel.virtual_host
    if binding_identity(source, destination, key, arguments) not in source.bindings:
        check_room(
            f"bind '{destination.name}' to '{source.name}'",
            f"binding limit in vhost '{vhost.name}'",
            vhost.binding_count,
            channel.broker.config.limits.bindings_max,
        )
    binding = vhost.bind(source, destination, key, arguments)
    if binding is not None and binding.is_durable:
        return answer(channel, reply, channel.broker.save_binding(vhost, binding))
    return answer(channel, reply)
