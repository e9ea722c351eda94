"""exchange.*: declare, delete, bind and unbind exchanges."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.audited_table import audited_table
from amqp_server.broker.binding import BindingIdentity
from amqp_server.broker.declaring.equivalence import check_equivalent_exchange
from amqp_server.broker.declaring.exchange_arguments import check_alternate
from amqp_server.broker.declaring.names import (
    check_exchange_name_is_free,
    clean_name,
    find_exchange,
    is_reserved,
    refuse_default,
)
from amqp_server.broker.declaring.object_limits import check_limit
from amqp_server.broker.exchange import Exchange, alternate_of
from amqp_server.broker.handlers.bindings import (
    make_binding,
    record_unbound,
    reply_when_unbound,
    require_binding,
)
from amqp_server.broker.handlers.handler import Handlers
from amqp_server.broker.handlers.replies import reply_after_deletion, send_reply, when_deleted
from amqp_server.broker.routing.matchers import MATCHERS
from amqp_server.broker.transfers.delay import DELAYED_KIND
from amqp_server.protocol.errors import AccessRefused, PreconditionFailed
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
from amqp_server.protocol.tables import encode_table

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from amqp_server.broker.channel import Channel
    from amqp_server.broker.handlers.handler import Outcome
    from amqp_server.protocol.methods import Method
    from amqp_server.protocol.tables import Table


def declare(channel: Channel, method: ExchangeDeclare) -> Outcome:
    """Create an exchange, or check that the existing one has the same properties."""
    name = clean_name(method.exchange)
    if method.passive:
        refuse_default(name)
        channel.client.rights.require_any("exchange", name)
    else:
        _check_type(method.type)
        refuse_default(name)
        channel.client.rights.require(Right.CONFIGURE, "exchange", name)
    vhost = channel.virtual_host
    writer = channel.broker.definition_writer
    reply = None if method.no_wait else ExchangeDeclareOk()
    exchange = vhost.exchanges.get(name)
    if exchange is not None and exchange.auto_delete:
        # It may be about to go with a queue that is gone for this client already.
        pending = partial(vhost.deletions.that_unbinds, exchange)
        if pending() is not None:
            return when_deleted(pending, channel, declare, method)
    if method.passive:
        find_exchange(vhost, name)
        return send_reply(channel, reply)
    if exchange is not None:
        check_equivalent_exchange(vhost, exchange, method)
        if writer.is_under_way(exchange):
            return send_reply(channel, reply, writer.save_exchange(vhost, exchange))
        return send_reply(channel, reply)
    if is_reserved(name):
        raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
    if name in vhost.deletions.exchanges:
        pending = partial(vhost.deletions.exchanges.get, name)
        return when_deleted(pending, channel, declare, method)
    check_exchange_name_is_free(vhost, name, is_saved=method.durable)
    _check_alternate(channel, name, method.arguments)
    check_limit(
        f"declare exchange '{name}'",
        f"exchange limit in vhost '{vhost.name}'",
        len(vhost.exchanges),
        channel.broker.config.limits.exchanges_max,
    )
    exchange = Exchange(
        name,
        method.type,
        durable=method.durable,
        auto_delete=method.auto_delete,
        internal=method.internal,
        arguments=method.arguments,
    )
    vhost.add_exchange(exchange)
    channel.broker.audit.record(
        "exchange.created",
        channel.client.actor,
        vhost=vhost.name,
        name=name,
        details={
            "type": method.type,
            "durable": method.durable,
            "auto_delete": method.auto_delete,
            "internal": method.internal,
            "arguments": audited_table(method.arguments),
        },
        attributes=lambda: {"arguments": exchange.arguments},
    )
    if exchange.type == DELAYED_KIND:
        channel.broker.create_delay_queue(vhost, exchange)
    if exchange.durable:
        return send_reply(channel, reply, writer.save_exchange(vhost, exchange))
    return send_reply(channel, reply)


def _check_type(kind: str) -> None:
    if kind not in MATCHERS:
        # RabbitMQ has two words for it; since 3.13 it leaves the connection open.
        raise PreconditionFailed(f"{'unknown' if kind else 'invalid'} exchange type '{kind}'")


def _check_alternate(channel: Channel, name: str, arguments: Table) -> None:
    """Check the alternate exchange of a new exchange, and that the client may let it have one."""
    check_alternate(name, channel.virtual_host.name, arguments)
    value = arguments.get("alternate-exchange")
    if value is not None:
        # The empty name has no effect, and needs the rights of the default exchange all the same.
        alternate = alternate_of(arguments) or ""
        channel.client.rights.require(Right.READ, "exchange", name)
        channel.client.rights.require(Right.WRITE, "exchange", alternate)


def delete(channel: Channel, method: ExchangeDelete) -> Outcome:
    """Delete an exchange; a missing one counts as deleted."""
    name = clean_name(method.exchange)
    refuse_default(name)
    vhost = channel.virtual_host
    reply = None if method.no_wait else ExchangeDeleteOk()
    if is_reserved(name):
        raise AccessRefused(
            f"deletion of system exchange '{name}' in vhost '{vhost.name}' not allowed"
        )
    channel.client.rights.require(Right.CONFIGURE, "exchange", name)
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        if not vhost.damaged.is_exchange(name):
            removed = channel.broker.definitions.make_exchange_removed(vhost.name, name)
            return send_reply(channel, reply, removed)
        deletion = channel.broker.delete_damaged_exchange(vhost, name, channel)
        return reply_after_deletion(channel, reply, deletion)
    if method.if_unused and exchange.bindings:
        # The queues that they lead to may be deleted.
        pending = partial(vhost.deletions.that_unbinds, exchange)
        if pending() is not None:
            return when_deleted(pending, channel, delete, method)
        raise PreconditionFailed(f"exchange '{name}' in vhost '{vhost.name}' in use")
    deletion = channel.broker.delete_exchange(vhost, exchange, channel)
    return reply_after_deletion(channel, reply, deletion)


def bind(channel: Channel, method: ExchangeBind) -> Awaitable[Method | None] | None:
    """Bind an exchange to another."""
    vhost = channel.virtual_host
    source_name, destination_name = _ends(channel, method)
    # If both are missing, RabbitMQ names the source.
    source = find_exchange(vhost, source_name)
    destination = find_exchange(vhost, destination_name)
    reply = None if method.no_wait else ExchangeBindOk()
    return make_binding(channel, source, destination, method.routing_key, method.arguments, reply)


def unbind(channel: Channel, method: ExchangeUnbind) -> Outcome:
    """Unbind an exchange from another; a missing binding counts as removed, as in RabbitMQ."""
    vhost = channel.virtual_host
    source_name, destination_name = _ends(channel, method)
    source = vhost.exchanges.get(source_name)
    destination = vhost.exchanges.get(destination_name)
    reply = None if method.no_wait else ExchangeUnbindOk()
    arguments = encode_table(method.arguments)
    identity = BindingIdentity(
        source_name, "exchange", destination_name, method.routing_key, arguments
    )
    if source is None or destination is None:
        deletions = vhost.deletions.exchanges
        for name in (source_name, destination_name):
            if name in deletions:
                return when_deleted(partial(deletions.get, name), channel, unbind, method)
        return reply_when_unbound(channel, identity, reply)
    binding = vhost.unbind(source, destination, method.routing_key, method.arguments)
    if binding is None:
        if identity.document_name in vhost.damaged.damaged_bindings:
            unbound = channel.broker.remove_damaged_binding(vhost, identity.document_name)
            return send_reply(channel, reply, unbound)
        return reply_when_unbound(channel, identity, reply)
    record_unbound(channel, binding)
    return reply_after_deletion(channel, reply, channel.broker.remove_binding(vhost, binding))


def _ends(channel: Channel, method: ExchangeBind | ExchangeUnbind) -> tuple[str, str]:
    """Return the names of source and destination of a binding that the client may change."""
    source, destination = clean_name(method.source), clean_name(method.destination)
    require_binding(channel, "exchange", destination, source, method.routing_key)
    return source, destination


EXCHANGE_HANDLERS: Handlers = {
    ExchangeDeclare: declare,
    ExchangeDelete: delete,
    ExchangeBind: bind,
    ExchangeUnbind: unbind,
}
