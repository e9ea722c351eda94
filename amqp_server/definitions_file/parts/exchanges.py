"""The section `exchanges`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from amqp_server.broker.declaring.exchange_arguments import check_alternate
from amqp_server.broker.declaring.names import check_exchange_name_is_free, is_reserved
from amqp_server.broker.definitions import exchange_document
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.routing.matchers import MATCHERS
from amqp_server.broker.transfers.delay import DELAYED_KIND
from amqp_server.broker.virtual_host import is_predeclared
from amqp_server.definitions_file.errors import ImportFailedError
from amqp_server.definitions_file.json_arguments import is_same, plain_from_table
from amqp_server.definitions_file.parts.part import in_vhost
from amqp_server.protocol.errors import AmqpError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges
    from amqp_server.definitions_file.import_plan import ImportPlan


class ExchangesPart:
    """Exchanges; those that exist stay as they are.

    Args:
        broker: Broker that owns them.
    """

    section = "exchanges"

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check an exchange; see `Part`."""
        vhost = plan.vhost_of(entry)
        name = entry.short_text("name", may_be_empty=True)
        if not plan.is_first(entry, (vhost.name, name), stays=True):
            return
        if is_predeclared(vhost.name, name):
            # RabbitMQ does not write them.
            plan.equal(entry)
            return
        if is_reserved(name):
            # As in RabbitMQ, which has such exchanges only while a setting or a plugin wants them.
            plan.skip(entry, (vhost.name, name), f"exchange '{name}' belongs to a server")
            return
        kind = entry.text("type")
        if kind not in MATCHERS:
            plan.skip(entry, (vhost.name, name), f"exchange '{name}' has the unknown type '{kind}'")
            return
        exchange = _exchange(entry, vhost.name, name, kind)
        if vhost.existing is not None:
            existing = vhost.existing.exchanges.get(name)
            if existing is not None:
                _compare(entry, plan, vhost.name, existing, exchange)
                return
            try:
                check_exchange_name_is_free(vhost.existing, name, is_saved=exchange.durable)
            except AmqpError as error:
                raise entry.error(error.args[0]) from error
        count = len(vhost.existing.exchanges) if vhost.existing is not None else 0
        most = self._broker.config.limits.exchanges_max
        plan.count_new(entry, f"vhost '{vhost.name}'", count, most)
        plan.new_exchanges[vhost.name, name] = exchange
        plan.create(entry, partial(_create, vhost.name, exchange))

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the exchanges but for the predeclared ones; see `Part`."""
        for name, host in list(self._broker.vhosts.items()):
            if vhost not in (None, name):
                continue
            for exchange in list(host.exchanges.values()):
                if exchange.name and not is_reserved(exchange.name):
                    yield in_vhost(vhost, name, {"name": exchange.name, **_fields(exchange)})


def _exchange(entry: Entry, vhost: str, name: str, kind: str) -> Exchange:
    arguments = entry.arguments()
    try:
        check_alternate(name, vhost, arguments)
        return Exchange(
            name,
            kind,
            durable=entry.flag("durable", default=True),
            auto_delete=entry.flag("auto_delete", default=False),
            internal=entry.flag("internal", default=False),
            arguments=arguments,
        )
    except AmqpError as error:
        raise entry.error(error.args[0]) from error


def _compare(
    entry: Entry, plan: ImportPlan, vhost: str, existing: Exchange, wanted: Exchange
) -> None:
    has, asks = _fields(existing), _fields(wanted)
    for name in has:
        if not is_same(has[name], asks[name]):
            plan.different(
                entry,
                f"exchange '{existing.name}' in vhost '{vhost}' has {name} {has[name]!r:.200}, "
                f"the file {asks[name]!r:.200}",
            )
            return
    plan.equal(entry)


def _fields(exchange: Exchange) -> dict[str, Any]:
    return {
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain_from_table(exchange.arguments),
    }


def _create(vhost_name: str, exchange: Exchange, changes: ImportChanges) -> None:
    vhost = changes.vhost(vhost_name)
    name = exchange.name
    if name in vhost.exchanges:
        # A client has declared it since; what exists stays as it is.
        return
    if name in vhost.deletions.exchanges:
        raise ImportFailedError(f"exchange '{name}' is being deleted: try again")
    vhost.add_exchange(exchange)
    if exchange.type == DELAYED_KIND:
        changes.broker.create_delay_queue(vhost, exchange)
    delay_queue = vhost.delay_queues.get(exchange)
    document = exchange_document(vhost_name, exchange, delay_queue) if exchange.durable else None
    changes.add(vhost, exchange, document)
