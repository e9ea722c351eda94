"""What `queue.bind` and `exchange.bind` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.audited_table import audited_table
from amqp_server.broker.binding import binding_identity
from amqp_server.broker.declaring.names import refuse_default
from amqp_server.broker.declaring.object_limits import check_limit
from amqp_server.broker.handlers.replies import send_reply
from amqp_server.broker.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.binding import Binding, BindingIdentity, Destination
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.exchange import Exchange
    from amqp_server.protocol.methods import Method
    from amqp_server.protocol.tables import Table


def reply_when_unbound(
    channel: Channel, identity: BindingIdentity, reply: Method | None
) -> Awaitable[Method | None] | None:
    """Reply to the unbind of a binding that is out of memory, or never was there.

    Another client may have removed it, itself or with one of its ends, and the disk may still have
    it.
    """
    vhost = channel.virtual_host.name
    removed = channel.broker.definitions.make_binding_removed(vhost, identity)
    return send_reply(channel, reply, removed)


def require_binding(channel: Channel, kind: str, destination: str, source: str, key: str) -> None:
    """Check that a client may bind or unbind, whether or not source and destination exist.

    Args:
        channel: Channel of the method.
        kind: Kind of the destination: `queue` or `exchange`.
        destination: Name of the destination.
        source: Name of the exchange that messages come from.
        key: Routing key of the binding.

    Raises:
        AccessRefused: The client may not, or one of the two is the default exchange.
    """
    rights = channel.client.rights
    if kind == "exchange":
        refuse_default(destination)
    rights.require(Right.WRITE, kind, destination)
    refuse_default(source)
    rights.require(Right.READ, "exchange", source)
    exchange = channel.virtual_host.exchanges.get(source)
    if exchange is not None:
        rights.require_topic(Right.READ, exchange, key)


def make_binding(
    channel: Channel,
    source: Exchange,
    destination: Destination,
    key: str,
    arguments: Table,
    reply: Method | None,
    number: int | None = None,
) -> Awaitable[Method | None] | None:
    """Create a binding and reply; a binding that exists already is not created again.

    Args:
        channel: Channel of the method.
        source: Exchange that messages come from.
        destination: Queue or exchange that they go to.
        key: Routing key.
        arguments: Arguments of the binding.
        reply: Reply of the method; None sends none.
        number: Number of a new binding; None makes it the last one of its source.

    Raises:
        PreconditionFailed: The exchange's type does not allow such a binding, or the virtual
            host has as many bindings as allowed.
    """
    source.matcher.check_binding(key, arguments)
    vhost = channel.virtual_host
    broker = channel.broker
    writer = broker.definition_writer
    identity = binding_identity(source, destination, key, arguments)
    existing = source.bindings.get(identity)
    if existing is not None:
        after = writer.save_binding(vhost, existing) if writer.is_under_way(existing) else None
        return send_reply(channel, reply, after)
    check_limit(
        f"bind '{destination.name}' to '{source.name}'",
        f"binding limit in vhost '{vhost.name}'",
        vhost.binding_count,
        broker.config.limits.bindings_max,
    )
    if source.matcher.rearranges_all:
        check_limit(
            f"bind '{destination.name}' to '{source.name}'",
            f"binding limit of an exchange of type '{source.type}'",
            len(source.bindings),
            broker.config.limits.hash_bindings_max,
        )
    binding = vhost.bind(source, destination, key, arguments, number, identity)
    if binding is not None:
        _record(channel, "binding.created", binding)
    after = writer.save_binding(vhost, binding) if binding and binding.is_saved else None
    return send_reply(channel, reply, after)


def record_unbound(channel: Channel, binding: Binding) -> None:
    """Record that a client has removed a binding."""
    _record(channel, "binding.deleted", binding)


def _record(channel: Channel, event: str, binding: Binding) -> None:
    destination = binding.destination
    channel.broker.audit.record(
        event,
        channel.client.actor,
        vhost=channel.virtual_host.name,
        name=destination.name,
        details={
            "source": binding.source.name,
            "destination_type": binding.identity.kind,
            "routing_key": binding.routing_key,
            "arguments": audited_table(binding.arguments),
        },
        is_session=isinstance(destination, Queue) and destination.exclusive_owner is not None,
        attributes=lambda: {"arguments": binding.arguments},
    )
