"""Binds queues and exchanges to exchanges, and unbinds them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.audited_table import audited_table
from amqp_server.broker.binding import BindingIdentity, binding_identity
from amqp_server.broker.declaring.names import (
    check_not_locked,
    clean_name,
    find_exchange,
    find_named_queue,
    queue_name,
    queue_of_name,
    refuse_default,
)
from amqp_server.broker.declaring.object_limits import check_limit
from amqp_server.broker.queue import Queue
from amqp_server.operations.applied import Applied, deleted
from amqp_server.operations.deferring import when_deleted
from amqp_server.protocol.tables import encode_table

if TYPE_CHECKING:
    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.operations.applied import Operation
    from amqp_server.protocol.methods import ExchangeBind, ExchangeUnbind, QueueBind, QueueUnbind
    from amqp_server.protocol.tables import Table


def bind_queue(channel: Channel, method: QueueBind) -> Applied[None]:
    """Bind a queue to an exchange; an existing binding stays.

    Raises:
        AmqpError: The client may not, one of the two is missing, or the exchange takes no such
            binding.
    """
    name, key = _queue_and_key(channel, method)
    exchange_name = clean_name(method.exchange)
    _require(channel, "queue", name, exchange_name, key)
    # If both are missing, RabbitMQ names the exchange.
    exchange = find_exchange(channel.virtual_host, exchange_name)
    queue = find_named_queue(channel, name)
    return make_binding(channel, exchange, queue, key, method.arguments)


def unbind_queue(channel: Channel, method: QueueUnbind) -> Operation[None]:
    """Unbind a queue from an exchange; a missing binding counts as removed, as in RabbitMQ.

    Raises:
        AmqpError: The client may not, or the queue is another client's.
    """
    vhost = channel.virtual_host
    name, key = _queue_and_key(channel, method)
    exchange_name = clean_name(method.exchange)
    _require(channel, "queue", name, exchange_name, key)
    queue = queue_of_name(channel, name)
    exchange = vhost.exchanges.get(exchange_name)
    identity = BindingIdentity(exchange_name, "queue", name, key, encode_table(method.arguments))
    if queue is None or exchange is None:
        if name in vhost.deletions.queues:
            pending = partial(vhost.deletions.queues.get, name)
            return when_deleted(pending, channel, unbind_queue, method)
        if exchange_name in vhost.deletions.exchanges:
            pending = partial(vhost.deletions.exchanges.get, exchange_name)
            return when_deleted(pending, channel, unbind_queue, method)
        return _no_binding(channel, identity)
    if identity not in exchange.bindings:
        return _unbind_damaged(channel, vhost, identity)
    check_not_locked(channel, queue)
    binding = vhost.unbind(exchange, queue, key, method.arguments)
    assert binding is not None, "the exchange has this binding"
    return _unbound(channel, vhost, binding)


def bind_exchange(channel: Channel, method: ExchangeBind) -> Applied[None]:
    """Bind an exchange to another; an existing binding stays.

    Raises:
        AmqpError: The client may not, one of the two is missing, or the source takes no such
            binding.
    """
    vhost = channel.virtual_host
    source_name, destination_name = _exchanges(channel, method)
    # If both are missing, RabbitMQ names the source.
    source = find_exchange(vhost, source_name)
    destination = find_exchange(vhost, destination_name)
    return make_binding(channel, source, destination, method.routing_key, method.arguments)


def unbind_exchange(channel: Channel, method: ExchangeUnbind) -> Operation[None]:
    """Unbind an exchange from another; a missing binding counts as removed, as in RabbitMQ.

    Raises:
        AmqpError: The client may not.
    """
    vhost = channel.virtual_host
    source_name, destination_name = _exchanges(channel, method)
    source = vhost.exchanges.get(source_name)
    destination = vhost.exchanges.get(destination_name)
    arguments = encode_table(method.arguments)
    identity = BindingIdentity(
        source_name, "exchange", destination_name, method.routing_key, arguments
    )
    if source is None or destination is None:
        deletions = vhost.deletions.exchanges
        for name in (source_name, destination_name):
            if name in deletions:
                pending = partial(deletions.get, name)
                return when_deleted(pending, channel, unbind_exchange, method)
        return _no_binding(channel, identity)
    binding = vhost.unbind(source, destination, method.routing_key, method.arguments)
    if binding is None:
        return _unbind_damaged(channel, vhost, identity)
    return _unbound(channel, vhost, binding)


def make_binding(
    channel: Channel,
    source: Exchange,
    destination: Destination,
    key: str,
    arguments: Table,
    number: int | None = None,
) -> Applied[None]:
    """Create a binding; one that exists already is not created again.

    Args:
        channel: Channel of the client; its rights were checked.
        source: Exchange that messages come from.
        destination: Queue or exchange that they go to.
        key: Routing key.
        arguments: Arguments of the binding.
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
        return Applied(
            None, writer.save_binding(vhost, existing) if writer.is_under_way(existing) else None
        )
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
    return Applied(
        None, writer.save_binding(vhost, binding) if binding and binding.is_saved else None
    )


def _queue_and_key(channel: Channel, method: QueueBind | QueueUnbind) -> tuple[str, str]:
    """Return the queue's name and the routing key that the client means."""
    name = queue_name(channel, method.queue)
    if not method.queue and not method.routing_key:
        # Source: specification, queue.bind: an unnamed queue without a key is bound by its name.
        return name, name
    return name, method.routing_key


def _exchanges(channel: Channel, method: ExchangeBind | ExchangeUnbind) -> tuple[str, str]:
    """Return the names of source and destination of a binding that the client may change."""
    source, destination = clean_name(method.source), clean_name(method.destination)
    _require(channel, "exchange", destination, source, method.routing_key)
    return source, destination


def _require(channel: Channel, kind: str, destination: str, source: str, key: str) -> None:
    """Check that a client may bind or unbind, whether or not source and destination exist.

    Args:
        channel: Channel of the client.
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


def _unbound(channel: Channel, vhost: VirtualHost, binding: Binding) -> Operation[None]:
    _record(channel, "binding.deleted", binding)
    return deleted(channel.broker.remove_binding(vhost, binding), None)


def _unbind_damaged(
    channel: Channel, vhost: VirtualHost, identity: BindingIdentity
) -> Applied[None]:
    """Remove a binding whose definition cannot be read, if there is one."""
    if identity.document_name in vhost.damaged.damaged_bindings:
        return Applied(None, channel.broker.remove_damaged_binding(vhost, identity.document_name))
    return _no_binding(channel, identity)


def _no_binding(channel: Channel, identity: BindingIdentity) -> Applied[None]:
    """Unbind what is out of memory, or never was there.

    Another client may have removed it, itself or with one of its ends, and the disk may still have
    it.
    """
    vhost = channel.virtual_host.name
    return Applied(None, channel.broker.definitions.make_binding_removed(vhost, identity))


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
