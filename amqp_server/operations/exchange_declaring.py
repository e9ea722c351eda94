"""Declares exchanges: creates one, or checks that the existing one is what the client asks for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from amqp_server.access.permissions import Right
from amqp_server.broker.audited_table import audited_table
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
from amqp_server.broker.routing.matchers import MATCHERS
from amqp_server.broker.transfers.delay import DELAYED_KIND
from amqp_server.operations.applied import Applied
from amqp_server.operations.deferring import when_deleted
from amqp_server.protocol.errors import AccessRefused, PreconditionFailed

if TYPE_CHECKING:
    from amqp_server.broker.channel import Channel
    from amqp_server.operations.applied import Operation
    from amqp_server.protocol.methods import ExchangeDeclare
    from amqp_server.protocol.tables import Table


def declare_exchange(channel: Channel, method: ExchangeDeclare) -> Operation[None]:
    """Create an exchange, or check that the existing one has the same properties.

    A passive declare only checks that there is one.

    Raises:
        AmqpError: The client may not, an argument is not valid, the existing exchange has others,
            or there is no such exchange to check.
    """
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
    exchange = vhost.exchanges.get(name)
    if exchange is not None and exchange.auto_delete:
        # It may be about to go with a queue that is gone for this client already.
        pending = partial(vhost.deletions.that_unbinds, exchange)
        if pending() is not None:
            return when_deleted(pending, channel, declare_exchange, method)
    if method.passive:
        find_exchange(vhost, name)
        return Applied(None)
    if exchange is not None:
        check_equivalent_exchange(vhost, exchange, method)
        if writer.is_under_way(exchange):
            return Applied(None, writer.save_exchange(vhost, exchange))
        return Applied(None)
    if is_reserved(name):
        raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
    if name in vhost.deletions.exchanges:
        pending = partial(vhost.deletions.exchanges.get, name)
        return when_deleted(pending, channel, declare_exchange, method)
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
    _record(channel, method, exchange)
    if exchange.type == DELAYED_KIND:
        channel.broker.create_delay_queue(vhost, exchange)
    if exchange.durable:
        return Applied(None, writer.save_exchange(vhost, exchange))
    return Applied(None)


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


def _record(channel: Channel, method: ExchangeDeclare, exchange: Exchange) -> None:
    channel.broker.audit.record(
        "exchange.created",
        channel.client.actor,
        vhost=channel.virtual_host.name,
        name=exchange.name,
        details={
            "type": method.type,
            "durable": method.durable,
            "auto_delete": method.auto_delete,
            "internal": method.internal,
            "arguments": audited_table(method.arguments),
        },
        attributes=lambda: {"arguments": exchange.arguments},
    )
