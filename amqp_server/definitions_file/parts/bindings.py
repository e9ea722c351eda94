"""The section `bindings`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from amqp_server.broker.binding import BindingIdentity
from amqp_server.broker.declaring.names import is_reserved
from amqp_server.broker.definitions import binding_document
from amqp_server.broker.queue import Queue
from amqp_server.broker.virtual_host import VirtualHost, is_predeclared
from amqp_server.definitions_file.errors import ImportFailedError
from amqp_server.definitions_file.json_arguments import plain_from_table
from amqp_server.definitions_file.parts.part import in_vhost
from amqp_server.protocol.errors import AmqpError
from amqp_server.protocol.tables import encode_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.broker import Broker
    from amqp_server.definitions_file.entry import Entry
    from amqp_server.definitions_file.import_changes import ImportChanges
    from amqp_server.definitions_file.import_plan import ImportPlan, PlannedVhost
    from amqp_server.protocol.tables import Table


class _Wanted(NamedTuple):
    """A binding of the file."""

    vhost: str
    source: str
    kind: str
    destination: str
    key: str
    arguments: Table

    def identity(self, arguments: Table) -> BindingIdentity:
        octets = encode_table(arguments)
        return BindingIdentity(self.source, self.kind, self.destination, self.key, octets)


class BindingsPart:
    """Bindings; the broker makes those of the default exchange itself.

    Args:
        broker: Broker that owns them.
    """

    section = "bindings"

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def prepare(self, plan: ImportPlan) -> Iterator[None]:
        """Note the existing bindings that have arguments, in steps."""
        for host in list(self._broker.vhosts.values()):
            for exchange in list(host.exchanges.values()):
                for binding in list(exchange.bindings.values()):
                    if binding.arguments:
                        found = (exchange.name, binding.identity.kind, binding.destination.name)
                        key = _plain_key(host.name, *found, binding.routing_key, binding.arguments)
                        plan.known_bindings.add(key)
                    yield

    def plan(self, entry: Entry, plan: ImportPlan) -> None:
        """Check a binding; see `Part`."""
        vhost = plan.vhost_of(entry)
        kind = entry.text("destination_type", "queue")
        if kind not in ("queue", "exchange"):
            raise entry.error(f"'destination_type' is {kind!r:.50}, expected queue or exchange")
        wanted = _Wanted(
            vhost.name,
            entry.short_text("source", may_be_empty=True),
            kind,
            entry.short_text("destination", may_be_empty=False),
            entry.short_text("routing_key", "", may_be_empty=True),
            entry.arguments(),
        )
        key = _key(wanted)
        if not plan.is_first(entry, key):
            return
        if not wanted.source:
            plan.equal(entry)
            return
        ends = (("exchange", wanted.source), (kind, wanted.destination))
        for end_kind, name in ends:
            if self._is_skipped(entry, plan, vhost, end_kind, name):
                reason = f"{end_kind} '{name}' is not imported"
                plan.skip(entry, key, f"the binding of '{wanted.destination}': {reason}")
                return
        _check(entry, plan, vhost, wanted)
        if vhost.existing is not None and _exists(vhost.existing, wanted, plan):
            plan.equal(entry)
            return
        count = vhost.existing.binding_count if vhost.existing is not None else 0
        limits = self._broker.config.limits
        plan.count_new(entry, f"vhost '{vhost.name}'", count, limits.bindings_max)
        plan.create(entry, partial(_create, wanted))

    def export(self, vhost: str | None) -> Iterator[dict[str, Any]]:
        """Yield the bindings but for those of exclusive queues; see `Part`."""
        for name, host in list(self._broker.vhosts.items()):
            if vhost not in (None, name):
                continue
            for exchange in list(host.exchanges.values()):
                for binding in list(exchange.bindings.values()):
                    end = binding.destination
                    if isinstance(end, Queue) and end.exclusive_owner is not None:
                        continue
                    fields = {
                        "source": exchange.name,
                        "destination": end.name,
                        "destination_type": binding.identity.kind,
                        "routing_key": binding.routing_key,
                        "arguments": plain_from_table(binding.arguments),
                    }
                    yield in_vhost(vhost, name, fields)

    def _is_skipped(
        self, entry: Entry, plan: ImportPlan, vhost: PlannedVhost, kind: str, name: str
    ) -> bool:
        """Return whether an end of a binding is left out.

        Raises:
            DefinitionsError: There is no such end at all.
        """
        section = "queues" if kind == "queue" else "exchanges"
        key = (vhost.name, name)
        if vhost.existing is not None and name in getattr(vhost.existing, section):
            return False
        if plan.has_new(section, key):
            return False
        if kind == "exchange" and is_predeclared(vhost.name, name):
            return False
        if plan.is_skipped(section, key):
            return True
        # RabbitMQ writes the bindings of its own exchanges and queues, but not these. RabbitMQ 3.x
        # also writes those of exclusive queues.
        if is_reserved(name) or (kind == "queue" and plan.rabbit_version.startswith("3.")):
            return True
        raise entry.error(f"no {kind} '{name}' in vhost '{vhost.name}'")


def _check(entry: Entry, plan: ImportPlan, vhost: PlannedVhost, wanted: _Wanted) -> None:
    """Check that the source takes such a binding.

    Raises:
        DefinitionsError: It does not.
    """
    source = plan.new_exchanges.get((vhost.name, wanted.source))
    if source is None:
        # A new virtual host has the predeclared exchanges of any other.
        exchanges = vhost.existing.exchanges if vhost.existing else VirtualHost("").exchanges
        source = exchanges.get(wanted.source)
    if source is None:
        # The entry of the exchange has a mistake, which is noted.
        return
    try:
        source.matcher.check_binding(wanted.key, wanted.arguments)
    except AmqpError as error:
        raise entry.error(error.args[0]) from error


def _key(wanted: _Wanted) -> tuple[str, ...]:
    octets = encode_table(wanted.arguments)
    return (
        wanted.vhost,
        wanted.source,
        wanted.kind,
        wanted.destination,
        wanted.key,
        octets.hex(),
    )


def _exists(vhost: VirtualHost, wanted: _Wanted, plan: ImportPlan) -> bool:
    """Return whether a binding is there; a client may have sent its numbers with fewer bits."""
    source = vhost.exchanges.get(wanted.source)
    if source is None:
        return False
    if wanted.identity(wanted.arguments) in source.bindings:
        return True
    return bool(wanted.arguments) and _plain_key(*wanted) in plan.known_bindings


def _plain_key(
    vhost: str, source: str, kind: str, destination: str, key: str, arguments: Table
) -> tuple[str, ...]:
    """Return what identifies a binding if numbers have no width."""
    plain = orjson.dumps(plain_from_table(arguments), option=orjson.OPT_SORT_KEYS)
    return vhost, source, kind, destination, key, plain.decode()


def _create(wanted: _Wanted, changes: ImportChanges) -> None:
    vhost = changes.vhost(wanted.vhost)
    source = vhost.exchanges.get(wanted.source)
    ends = vhost.queues if wanted.kind == "queue" else vhost.exchanges
    destination = ends.get(wanted.destination)
    if source is None or destination is None:
        raise ImportFailedError(
            f"an end of the binding of '{wanted.destination}' to '{wanted.source}' in vhost "
            f"'{wanted.vhost}' was deleted during the import: try again"
        )
    source.matcher.check_binding(wanted.key, wanted.arguments)
    if wanted.identity(wanted.arguments) in source.bindings:
        return
    binding = vhost.bind(source, destination, wanted.key, wanted.arguments)
    assert binding is not None, "it is new"
    document = binding_document(wanted.vhost, binding) if binding.is_saved else None
    changes.add(vhost, binding, document)
