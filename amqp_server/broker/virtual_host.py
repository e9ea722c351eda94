"""A virtual host: a namespace of exchanges, queues and the bindings between them.

It holds the objects and keeps them consistent; `routing` finds the routes of messages. The handlers
decide whether a client may make a change, and send the replies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from amqp_server.broker.binding import Binding, binding_identity
from amqp_server.broker.consuming.direct_reply import DirectReplies
from amqp_server.broker.counters.vhost_counters import VhostCounters
from amqp_server.broker.damaged_definitions import DamagedDefinitions
from amqp_server.broker.events.event_message import EVENT_EXCHANGE, EVENT_VHOST
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.firehose.firehose import Firehose
from amqp_server.broker.firehose.trace_message import TRACE_EXCHANGE
from amqp_server.broker.pending_deletions import PendingDeletions
from amqp_server.broker.policies.vhost_policies import VhostPolicies
from amqp_server.broker.publishing.publish_targets import PublishTargets
from amqp_server.broker.routing.exchange_graph import ExchangeGraph
from amqp_server.broker.routing.routing import Routing
from amqp_server.broker.vhost_limits import VhostLimits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from amqp_server.broker.binding import BindingIdentity, Destination
    from amqp_server.broker.parameters import ParameterKey, ParameterOwner
    from amqp_server.broker.policies.effective_policy import EffectivePolicy
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.tables import Table

    PublishWatch = Callable[[Sequence[Queue], Sequence[bytes]], None]

PREDECLARED_EXCHANGES = (
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    (TRACE_EXCHANGE, "topic", True),
)
"""Name, type and internal flag of the exchanges that every virtual host has."""
EVENT_EXCHANGES = ((EVENT_EXCHANGE, "topic", True),)
"""The same of those that only the virtual host of the events has."""
REMOVED_MAX = 64
"""Removed queues and exchanges that cached routes may keep in memory."""
ORPHANS_MAX = 16
"""Queues of one lost client for which single routes end; with more, all routes are forgotten."""
SOURCES_MAX = 256
"""Bindings of a removed queue whose sources are looked at.

With more, the virtual host forgets all routes, and every exchange that divides messages between its
destinations does so again.
"""


class VirtualHost:
    """One virtual host. The event loop owns it.

    Attributes:
        is_deleted: Whether it was deleted; its connections are about to end.
        exchanges: Exchanges by name.
        queues: Queues by name.
        deletions: Deletions whose names cannot be used yet.
        damaged: Objects that the start could not recover; their names cannot be used.
        policies: Policies of the virtual host.
        delay_queues: Hidden queues of delayed exchanges.
        binding_count: Number of bindings.
        metadata: Description, tags and the like, kept for other programs, and the default queue
            type.
        parameters: Values by component and name; kept for other programs.
        limits: Limits that an operator has set.
        connection_count: Number of open connections; the server keeps it.
        counters: Counters of all its messages.
        graph: Which exchanges lead to which.
        routing: Finds the routes of messages.
        publish_targets: Cached routes of publish frames.
        replies: Consumers of direct replies.
        firehose: Traces messages while an operator wants it; else None.
        publish_watch: Called with each batch of published messages and the queues that it went
            to, none if it was unroutable; None in a server.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_deleted = False
        self.exchanges: dict[str, Exchange] = {
            exchange: Exchange(
                exchange, kind, durable=True, auto_delete=False, internal=internal, arguments={}
            )
            for exchange, kind, internal in _predeclared(name)
        }
        self.queues: dict[str, Queue] = {}
        self.deletions = PendingDeletions()
        self.damaged = DamagedDefinitions()
        self.policies = VhostPolicies()
        self.delay_queues: dict[Exchange, Queue] = {}
        self.graph = ExchangeGraph()
        self.routing = Routing(self)
        self.publish_targets = PublishTargets(self)
        self.replies = DirectReplies()
        self.firehose: Firehose | None = None
        self.publish_watch: PublishWatch | None = None
        self.binding_count = 0
        self.metadata: dict[str, Any] = {}
        self.parameters: dict[ParameterKey, Any] = {}
        self.parameter_owners: dict[ParameterKey, ParameterOwner] = {}
        self.limits = VhostLimits()
        self.connection_count = 0
        self.counters = VhostCounters()
        self._removed_count = 0
        self._bindings_to: dict[Destination, dict[Binding, None]] = {}
        # Exchanges that divide messages between all of their destinations.
        self._dividing: set[Exchange] = set()

    def trace(self, *, is_on: bool) -> None:
        """Trace the messages that are published and delivered from now on, or no longer."""
        if is_on != (self.firehose is not None):
            self.firehose = Firehose(self) if is_on else None

    def set_parameter_owner(self, key: ParameterKey, owner: ParameterOwner | None) -> None:
        """Keep who has set a parameter; None: an administrator."""
        if owner is None:
            self.parameter_owners.pop(key, None)
        else:
            self.parameter_owners[key] = owner

    def add_exchange(self, exchange: Exchange) -> None:
        """Add a new exchange."""
        refusing = self.damaged.end_refusing_exchange(exchange.name)
        if refusing is not None:
            self._unlink_all(refusing)
        self.exchanges[exchange.name] = exchange
        exchange.change_policy(self.policies.for_exchange(exchange.name))
        self.graph.add(exchange)
        if exchange.matcher.rearranges_all:
            self._dividing.add(exchange)
        self._invalidate_routes((exchange,))

    def add_queue(self, queue: Queue) -> None:
        """Add a new queue."""
        # A queue that is never saved may have a name from an unreadable directory.
        placeholder = self.remove_placeholder(queue.name)
        if placeholder is not None:
            self._unlink_all(placeholder)
        # The route cache has no entries for missing queues, so it stays valid.
        self.queues[queue.name] = queue

    def change_policy(self, exchange: Exchange, policy: EffectivePolicy) -> None:
        """Give an exchange what policies give to it, from the next publish on."""
        before = exchange.alternate, exchange.awaits_policy
        self.graph.remove(exchange)
        exchange.change_policy(policy)
        self.graph.add(exchange)
        if (exchange.alternate, exchange.awaits_policy) != before:
            self._invalidate_routes((exchange,))

    def remove_exchange(self, exchange: Exchange) -> None:
        """Remove an exchange at once: no route leads there any more, however many bindings do.

        The caller removes its bindings with `unlink_some`, before an exchange of this name is
        added.
        """
        exchange.is_deleted = True
        del self.exchanges[exchange.name]
        self._dividing.discard(exchange)
        self._on_destination_deleted(exchange)
        self._invalidate_routes((exchange,))
        self._count_removal()
        self.graph.remove(exchange)

    def remove_queue(self, queue: Queue) -> None:
        """Remove a queue that was stopped before; otherwise like `remove_exchange`."""
        del self.queues[queue.name]
        self._end_routes_to(queue)
        self._count_removal()

    def leave_queues(self, queues: Collection[Queue]) -> None:
        """Let no route lead to queues that only their owner could use, which has gone.

        Their names stay taken until they are removed.
        """
        for queue in queues:
            queue.is_gone = True
        if len(queues) > ORPHANS_MAX:
            for source in self._dividing:
                source.matcher.on_destination_deleted()
            self.forget_routes()
            return
        for queue in queues:
            self._end_routes_to(queue)

    def _end_routes_to(self, queue: Queue) -> None:
        self._on_destination_deleted(queue)
        changed = {self.exchanges[""]}
        bindings = self._bindings_to.get(queue, ())
        if len(bindings) > SOURCES_MAX:
            self.forget_routes()
        else:
            changed.update(each.source for each in bindings)
        self._invalidate_routes(changed)

    def bindings_to(self, end: Destination) -> list[Binding]:
        """Return the bindings that lead to a queue or an exchange."""
        return list(self._bindings_to.get(end, ()))

    def is_bound(self, end: Destination) -> bool:
        """Return whether a binding leads from or to an exchange, or to a queue."""
        return end in self._bindings_to or (isinstance(end, Exchange) and bool(end.bindings))

    def unlink_some(self, end: Destination, count_max: int) -> list[Binding]:
        """Remove and return bindings of a removed queue or exchange; none when all are gone.

        Args:
            end: Removed queue or exchange.
            count_max: Most bindings to remove.
        """
        gone: list[Binding] = []
        bindings_to = self._bindings_to.get(end)
        while bindings_to and len(gone) < count_max:
            binding, _ = bindings_to.popitem()
            binding.source.unbind(binding)
            self._count_unlinked(binding)
            gone.append(binding)
        if bindings_to is not None and not bindings_to:
            del self._bindings_to[end]
        if isinstance(end, Exchange):
            while end.bindings and len(gone) < count_max:
                binding = end.unbind_last()
                self._forget_end(binding)
                self._count_unlinked(binding)
                gone.append(binding)
        return gone

    def remove_placeholder(self, name: str) -> Queue | None:
        """Remove and return the placeholder of a damaged queue, like `remove_queue`."""
        placeholder = self.damaged.end_placeholder(name)
        if placeholder is not None:
            self._on_destination_deleted(placeholder)
            self.forget_routes()
        return placeholder

    def end_damaged_binding(self, encoded_name: str) -> None:
        """Let an exchange accept publishes again, because a damaged binding's document is gone."""
        if self.damaged.damaged_bindings.discard(encoded_name):
            self.forget_routes()

    def remove_refusing_exchange(self, name: str) -> Exchange | None:
        """Remove and return the placeholder of a damaged exchange, like `remove_exchange`."""
        refusing = self.damaged.end_refusing_exchange(name)
        self.forget_routes()
        if refusing is not None:
            refusing.is_deleted = True
            self._on_destination_deleted(refusing)
            # The one that leads to its own placeholder queue: it is no binding of the virtual host.
            refusing.unbind_last()
        return refusing

    def bind(
        self,
        source: Exchange,
        destination: Destination,
        key: str,
        arguments: Table,
        number: int | None = None,
        identity: BindingIdentity | None = None,
    ) -> Binding | None:
        """Create and return a binding; return None if it exists already.

        Args:
            source: Exchange that messages come from.
            destination: Queue or exchange that they go to.
            key: Routing key.
            arguments: Arguments of the binding.
            number: Number of the binding; None takes the next one of its source.
            identity: Its identity, if the caller has made it already.
        """
        identity = identity or binding_identity(source, destination, key, arguments)
        if identity in source.bindings:
            return None
        if number is None:
            number = source.next_binding_number
        binding = Binding(source, destination, key, arguments, number, identity)
        source.bind(binding)
        self.binding_count += 1
        self._bindings_to.setdefault(destination, {})[binding] = None
        if isinstance(destination, Exchange):
            self.graph.bind(source, destination)
        self._invalidate_routes((source,))
        return binding

    def unbind(
        self, source: Exchange, destination: Destination, key: str, arguments: Table
    ) -> Binding | None:
        """Remove and return a binding, or return None if there is none."""
        binding = source.bindings.get(binding_identity(source, destination, key, arguments))
        if binding is not None:
            self._invalidate_routes((source,))
            self._unlink(binding)
        return binding

    def exchanges_left_unused(self, removed: list[Binding]) -> list[Exchange]:
        """Return the auto-delete exchanges that lost their last binding with `removed`."""
        sources = {binding.source: None for binding in removed}
        return [
            source
            for source in sources
            if source.auto_delete
            and not source.bindings
            and self.exchanges.get(source.name) is source
        ]

    def _unlink_all(self, placeholder: Destination) -> None:
        """Remove all bindings to a placeholder at once. O(bindings)."""
        for binding in list(self._bindings_to.get(placeholder, ())):
            self._invalidate_routes((binding.source,))
            self._unlink(binding)

    def _unlink(self, binding: Binding) -> None:
        """Remove a binding; the caller notes the change of its source."""
        binding.source.unbind(binding)
        self._forget_end(binding)
        self._count_unlinked(binding)

    def _forget_end(self, binding: Binding) -> None:
        bindings = self._bindings_to[binding.destination]
        del bindings[binding]
        if not bindings:
            del self._bindings_to[binding.destination]

    def _count_unlinked(self, binding: Binding) -> None:
        self.binding_count -= 1
        if isinstance(binding.destination, Exchange):
            self.graph.unbind(binding.source, binding.destination)

    def _on_destination_deleted(self, end: Destination) -> None:
        """Let the exchanges that lead to a deleted queue or exchange choose among the others."""
        bindings = self._bindings_to.get(end, ())
        sources = (
            self._dividing if len(bindings) > SOURCES_MAX else {each.source for each in bindings}
        )
        for source in sources:
            source.matcher.on_destination_deleted()

    def _invalidate_routes(self, exchanges: Collection[Exchange]) -> None:
        """Invalidate the cached routes that lead through some exchanges."""
        affected = self.graph.affected_by(exchanges)
        if affected is None:
            self.forget_routes()
            return
        for each in affected:
            each.routes_version += 1

    def _count_removal(self) -> None:
        """Clear the cached routes once they may keep too many removed objects in memory."""
        self._removed_count += 1
        if self._removed_count == REMOVED_MAX:
            self.forget_routes()

    def forget_routes(self) -> None:
        """Clear the cached routes."""
        self._removed_count = 0
        self.routing.forget_all()
        self.publish_targets.forget_all()


def is_predeclared(vhost: str, exchange: str) -> bool:
    """Return whether a virtual host has an exchange from its beginning."""
    return any(name == exchange for name, _, _ in _predeclared(vhost))


def _predeclared(vhost: str) -> tuple[tuple[str, str, bool], ...]:
    return PREDECLARED_EXCHANGES + (EVENT_EXCHANGES if vhost == EVENT_VHOST else ())


def vhost_of(queue: Queue) -> VirtualHost:
    """Return the virtual host of a queue, of which the queue itself knows the name alone."""
    vhost = queue.virtual_host
    assert isinstance(vhost, VirtualHost), "queues are created in virtual hosts only"
    return vhost
