"""The commands `bindings.list`, `bindings.add` and `bindings.delete`.

The last two begin the operations of AMQP's methods, which audit what they do.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from amqp_server.control.command_channel import command_channel
from amqp_server.control.field_tables import checked_name, field_table
from amqp_server.control.properties_key import (
    has_arguments,
    is_key_of,
    properties_key,
    routing_key_in,
)
from amqp_server.control.protocol import ControlError, ErrorKind
from amqp_server.control.registry import Command
from amqp_server.definitions_file.json_arguments import plain_from_table
from amqp_server.operations.binding import (
    bind_exchange,
    bind_queue,
    unbind_exchange,
    unbind_queue,
)
from amqp_server.protocol.methods import ExchangeBind, ExchangeUnbind, QueueBind, QueueUnbind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.access.access_control import AccessControl
    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.channel import Channel
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.control.registry import ReportProgress
    from amqp_server.protocol.tables import Table

ROWS_AT_ONCE: Final = 256
"""Bindings in one progress report."""
LOOKED_AT_ONCE: Final = 1024
"""Bindings that are looked at before the time is."""
QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"

Row = dict[str, object]


async def list_all(
    broker: Broker,
    report: ReportProgress,
    vhost: str,
    source: str | None = None,
    destination: str | None = None,
    destination_type: str | None = None,
) -> None:
    """Send bindings in progress reports, with those of the default exchange.

    Bindings may be created and removed meanwhile.

    Args:
        broker: Broker of the server.
        report: Sends the client some bindings.
        vhost: Virtual host; empty: all.
        source: Only bindings of this exchange.
        destination: Only bindings to queues or exchanges of this name.
        destination_type: `queue` or `exchange`: only bindings to these.

    Raises:
        ControlError: There is no such virtual host, or no such kind.
    """
    if vhost and vhost not in broker.vhosts:
        raise ControlError(ErrorKind.NOT_FOUND, f"vhost '{vhost}' does not exist")
    if destination_type is not None:
        _check_kind(destination_type)
    hosts = [broker.vhosts[vhost]] if vhost else list(broker.vhosts.values())
    time_slice = broker.turn.new_slice()
    rows: list[Row] = []
    found_in = (_bindings(each, source, destination, destination_type) for each in hosts)
    for count, found in enumerate(chain.from_iterable(found_in)):
        if found is not None:
            rows.append(found)
        if len(rows) == ROWS_AT_ONCE:
            await report({"bindings": rows})
            rows = []
            # A client that reads fast keeps the socket open for more.
            await asyncio.sleep(0)
            time_slice = broker.turn.new_slice()
        elif count % 32 == 0:
            await time_slice.yield_if_due()
    if rows:
        await report({"bindings": rows})


def _bindings(
    host: VirtualHost, source: str | None, destination: str | None, kind: str | None
) -> Iterator[Row | None]:
    """Yield the matching bindings of a virtual host, and None for others that were looked at."""
    if source in (None, "") and kind in (None, QUEUE):
        names = list(host.queues) if destination is None else [destination]
        for name in names:
            if name in host.queues:
                yield _row(host, "", QUEUE, name, name, {})
            else:
                yield None
    if source == "":
        return
    found: Iterable[Binding]
    if destination is None:
        exchanges = list(host.exchanges.values()) if source is None else _exchange(host, source)
        found = chain.from_iterable(list(each.bindings.values()) for each in exchanges)
    else:
        ends: list[Destination] = []
        if kind != EXCHANGE and destination in host.queues:
            ends.append(host.queues[destination])
        if kind != QUEUE and destination in host.exchanges:
            ends.append(host.exchanges[destination])
        found = chain.from_iterable(host.bindings_to(end) for end in ends)
    for binding in found:
        if (source is None or binding.source.name == source) and (
            kind is None or binding.identity.kind == kind
        ):
            yield _row_of(host, binding)
        else:
            yield None


def _exchange(host: VirtualHost, name: str) -> list[Any]:
    return [host.exchanges[name]] if name in host.exchanges else []


def _row_of(host: VirtualHost, binding: Binding) -> Row:
    identity = binding.identity
    ends = (identity.kind, identity.destination)
    return _row(host, identity.source, *ends, binding.routing_key, binding.arguments)


def _row(
    host: VirtualHost, source: str, kind: str, destination: str, key: str, arguments: Table
) -> Row:
    return {
        "source": _text(source),
        "vhost": _text(host.name),
        "destination": _text(destination),
        "destination_type": kind,
        "routing_key": _text(key),
        "arguments": plain_from_table(arguments),
        "properties_key": properties_key(key, arguments),
    }


def _text(name: str) -> str:
    """Return a name for JSON; octets that are not UTF-8 are replaced."""
    return (
        name if name.isascii() else name.encode("utf-8", "surrogateescape").decode(errors="replace")
    )


async def add(
    broker: Broker,
    access: AccessControl,
    vhost: str,
    source: str,
    destination: str,
    destination_type: str,
    routing_key: str,
    arguments: dict[str, Any],
) -> dict[str, str]:
    """Bind a queue or an exchange; return when it is on the disk. An existing binding stays.

    Args:
        broker: Broker of the server.
        access: Users and permissions.
        vhost: Name of the virtual host.
        source: Exchange that messages come from.
        destination: Queue or exchange that they go to.
        destination_type: Which of the two.
        routing_key: Routing key.
        arguments: Arguments as JSON values.

    Raises:
        ControlError: An argument is not valid, AMQP refuses, or the disk failed.
    """
    _check_kind(destination_type)
    channel = command_channel("bindings.add", broker, access, vhost)
    table = field_table(arguments)
    ends = checked_name("source", source), checked_name("destination", destination)
    key = checked_name("routing_key", routing_key)
    if destination_type == QUEUE:
        bind = QueueBind(exchange=ends[0], queue=ends[1], routing_key=key, arguments=table)
        await channel.carry_out(partial(bind_queue, channel, bind))
    else:
        other = ExchangeBind(source=ends[0], destination=ends[1], routing_key=key, arguments=table)
        await channel.carry_out(partial(bind_exchange, channel, other))
    return {"properties_key": properties_key(key, table)}


async def delete(
    broker: Broker,
    access: AccessControl,
    vhost: str,
    source: str,
    destination: str,
    destination_type: str,
    properties_key: str,
) -> None:
    """Remove a binding; return when it cannot come back.

    Args:
        broker: Broker of the server.
        access: Users and permissions.
        vhost: Name of the virtual host.
        source: Exchange that messages come from.
        destination: Queue or exchange that they go to.
        destination_type: Which of the two.
        properties_key: Key of the binding, as in `bindings.list`.

    Raises:
        ControlError: There is no such binding, AMQP refuses, or the disk failed.
    """
    _check_kind(destination_type)
    channel = command_channel("bindings.delete", broker, access, vhost)
    found = await _find(channel, source, destination, destination_type, properties_key)
    if found is None:
        reason = f"no binding '{properties_key}' of {destination_type} '{destination}'"
        raise ControlError(ErrorKind.NOT_FOUND, f"{reason} to '{source}' in vhost '{vhost}'")
    key, table = found
    if destination_type == QUEUE:
        unbind = QueueUnbind(exchange=source, queue=destination, routing_key=key, arguments=table)
        await channel.carry_out(partial(unbind_queue, channel, unbind))
    else:
        other = ExchangeUnbind(
            source=source, destination=destination, routing_key=key, arguments=table
        )
        await channel.carry_out(partial(unbind_exchange, channel, other))


async def _find(
    channel: Channel, source: str, destination: str, kind: str, wanted: str
) -> tuple[str, Table] | None:
    """Return routing key and arguments of a binding."""
    host = channel.virtual_host
    end: Destination | None = (host.queues if kind == QUEUE else host.exchanges).get(destination)
    if end is None:
        return None
    key = routing_key_in(wanted)
    if not source:
        # AMQP refuses to remove it, with its own text.
        return (key, {}) if key == destination and not has_arguments(wanted) else None
    time_slice = channel.broker.turn.new_slice()
    for count, binding in enumerate(host.bindings_to(end)):
        if (
            binding.routing_key == key
            and binding.source.name == source
            and is_key_of(wanted, key, binding.arguments)
        ):
            return key, binding.arguments
        if count % LOOKED_AT_ONCE == 0:
            await time_slice.yield_if_due()
    return None


def _check_kind(kind: str) -> None:
    if kind not in (QUEUE, EXCHANGE):
        reason = f"destination_type is '{kind}', must be {QUEUE} or {EXCHANGE}"
        raise ControlError(ErrorKind.INVALID_ARGUMENT, reason)


def binding_commands(broker: Broker, access: AccessControl) -> tuple[Command, ...]:
    """Return the commands `bindings.*` of a server with these parts."""
    ends = {"vhost": str, "source": str, "destination": str, "destination_type": str}
    return (
        Command(
            "bindings.list",
            partial(list_all, broker),
            {"vhost": str},
            {"source": str, "destination": str, "destination_type": str},
            reports=True,
        ),
        Command(
            "bindings.add",
            partial(add, broker, access),
            {**ends, "routing_key": str, "arguments": dict},
        ),
        Command(
            "bindings.delete", partial(delete, broker, access), {**ends, "properties_key": str}
        ),
    )
