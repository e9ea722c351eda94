"""A virtual host: a namespace of exchanges, queues and the bindings between them.

It holds the objects and keeps them consistent; `routing` finds the routes of messages. The handlers
decide whether a client may make a change, and send the replies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.binding import Binding, binding_identity
from amqp_server.broker.consuming.direct_reply import DirectReplies
from amqp_server.broker.damaged_definitions import DamagedDefinitions
from amqp_server.broker.exchange import Exchange
from amqp_server.broker.publishing.publish_targets import PublishTargets
from amqp_server.broker.routing.exchange_graph import ExchangeGraph
from amqp_server.broker.routing.routing import Routing

if TYPE_CHECKING:
    from amqp_server.broker.binding import Destination
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.tables import Table

PREDECLARED_EXCHANGES = (
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.topic", "topic", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
)
"""Name, type and internal flag of the exchanges that every virtual host has."""
REMOVED_MAX = 64
"""Removed queues and exchanges that cached routes may keep in memory."""


class VirtualHost:
    """One virtual host. The event loop owns it.

    Attributes:
        is_deleted: Whether it was deleted; its connections are about to end.
        exchanges: Exchanges by name.
        queues: Queues by name.
        damaged: Objects that the start could not recover; their names cannot be used.
        delay_queues: Hidden queues of delayed exchanges.
        binding_count: Number of bindings.
        graph: Which exchanges lead to which.
        routing: Finds the routes of messages.
        publish_targets: Cached routes of publish frames.
        replies: Consumers of direct replies.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_deleted = False
        self.exchanges: dict[str, Exchange] = {
            exchange: Exchange(
                exchange, kind, durable=True, auto_delete=False, internal=internal, arguments={}
            )
            for exchange, kind, internal in PREDECLARED_EXCHANGES
        }
        self.queues: dict[str, Queue] = {}
        self.damaged = DamagedDefinitions()
        self.delay_queues: dict[Exchange, Queue] = {}
        self.graph = ExchangeGraph()
        self.routing = Routing(self)
        self.publish_targets = PublishTargets(self)
        self.replies = DirectReplies()
        self.binding_count = 0
        self._removed_count = 0
        self._bindings_to: dict[Destination, dict[Binding, None]] = {}

    def add_exchange(self, exchange: Exchange) -> None:
        """Add a new exchange."""
        refusing = self.damaged.end_refusing_exchange(exchange.name)
        if refusing is not None:
            self._remove_bindings_to(refusing)
        self.exchanges[exchange.name] = exchange
        self.graph.add(exchange)
        self._note_change(exchange)

    def add_queue(self, queue: Queue) -> None:
        """Add a new queue."""
        # A queue that is never saved may have a name from an unreadable directory.
        self.remove_placeholder(queue.name)
        # The route cache has no entries for missing queues, so it stays valid.
        self.queues[queue.name] = queue

    def remove_exchange(self, exchange: Exchange) -> list[Binding]:
        """Remove an exchange and all bindings from and to it; return these bindings."""
        del self.exchanges[exchange.name]
        self._note_change(exchange)
        self._note_removal()
        gone = list(exchange.bindings.values())
        for binding in gone:
            self._unlink(binding)
        gone += self._remove_bindings_to(exchange)
        self.graph.remove(exchange)
        return gone

    def remove_queue(self, queue: Queue) -> list[Binding]:
        """Remove a queue and all bindings to it; return these bindings."""
        del self.queues[queue.name]
        self._note_change(self.exchanges[""])
        self._note_removal()
        return self._remove_bindings_to(queue)

    def remove_placeholder(self, name: str) -> list[Binding]:
        """Remove the placeholder of a damaged queue; return the bindings to it."""
        placeholder = self.damaged.end_placeholder(name)
        if placeholder is None:
            return []
        self._forget_routes()
        return self._remove_bindings_to(placeholder)

    def end_damaged_binding(self, encoded_name: str) -> None:
        """Let an exchange accept publishes again, because a damaged binding's document is gone."""
        if self.damaged.damaged_bindings.discard(encoded_name):
            self._forget_routes()

    def remove_refusing_exchange(self, name: str) -> list[Binding]:
        """Remove the placeholder of a damaged exchange; return the bindings to it."""
        refusing = self.damaged.end_refusing_exchange(name)
        self._forget_routes()
        return [] if refusing is None else self._remove_bindings_to(refusing)

    def bind(
        self,
        source: Exchange,
        destination: Destination,
        key: str,
        arguments: Table,
        number: int | None = None,
    ) -> Binding | None:
        """Create and return a binding; return None if it exists already.

        Args:
            source: Exchange that messages come from.
            destination: Queue or exchange that they go to.
            key: Routing key.
            arguments: Arguments of the binding.
            number: Number of the binding; None takes the next one of its source.
        """
        if binding_identity(source, destination, key, arguments) in source.bindings:
            return None
        if number is None:
            number = source.next_binding_number
        binding = Binding(source, destination, key, arguments, number)
        source.bind(binding)
        self.binding_count += 1
        self._bindings_to.setdefault(destination, {})[binding] = None
        if isinstance(destination, Exchange):
            self.graph.bind(source, destination)
        self._note_change(source)
        return binding

    def unbind(
        self, source: Exchange, destination: Destination, key: str, arguments: Table
    ) -> Binding | None:
        """Remove and return a binding, or return None if there is none."""
        binding = source.bindings.get(binding_identity(source, destination, key, arguments))
        if binding is not None:
            self._forget(binding)
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

    def _remove_bindings_to(self, destination: Destination) -> list[Binding]:
        gone = list(self._bindings_to.get(destination, ()))
        # Once for each exchange: its routes are as stale after one change as after thousands.
        for source in {binding.source for binding in gone}:
            self._note_change(source)
        for binding in gone:
            self._unlink(binding)
        return gone

    def _forget(self, binding: Binding) -> None:
        self._note_change(binding.source)
        self._unlink(binding)

    def _unlink(self, binding: Binding) -> None:
        """Remove a binding; the caller notes the change of its source."""
        binding.source.unbind(binding)
        self.binding_count -= 1
        if isinstance(binding.destination, Exchange):
            self.graph.unbind(binding.source, binding.destination)
        bindings = self._bindings_to[binding.destination]
        del bindings[binding]
        if not bindings:
            del self._bindings_to[binding.destination]

    def _note_change(self, exchange: Exchange) -> None:
        """Invalidate the cached routes that lead through an exchange."""
        affected = self.graph.affected_by(exchange)
        if affected is None:
            self._forget_routes()
            return
        for each in affected:
            each.routes_version += 1

    def _note_removal(self) -> None:
        """Clear the cached routes once they may keep too many removed objects in memory."""
        self._removed_count += 1
        if self._removed_count == REMOVED_MAX:
            self._forget_routes()

    def _forget_routes(self) -> None:
        self._removed_count = 0
        self.routing.forget_all()
        self.publish_targets.forget_all()
