"""A virtual host: a namespace of exchanges, queues and the bindings between them.

Holds what exists; `routing` finds where a message goes in it. Whether a client may make a
change, and what it is told, is decided by the handlers; this only keeps the parts consistent.
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
"""Queues and exchanges that are gone, but that remembered routes may still lead to."""


class VirtualHost:
    """One virtual host. The event loop owns it.

    Attributes:
        exchanges: By name.
        queues: By name.
        damaged: What start-up could not bring back. Nobody may take such a name.
        delay_queues: The hidden queues of delayed exchanges.
        binding_count: Bindings between all of them.
        graph: Which exchanges lead to which.
        routing: Where messages go.
        publish_targets: Where the messages of each publish frame go.
        replies: Who waits for direct replies.
    """

    def __init__(self, name: str) -> None:
        self.name = name
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
        """Take in a new exchange."""
        refusing = self.damaged.end_refusing_exchange(exchange.name)
        if refusing is not None:
            self._remove_bindings_to(refusing)
        self.exchanges[exchange.name] = exchange
        self.graph.add(exchange)
        self._note_change(exchange)

    def add_queue(self, queue: Queue) -> None:
        """Take in a new queue."""
        # One that is never saved may have a name that stands in what was not readable.
        self.remove_placeholder(queue.name)
        # No route is remembered for the name of a queue that is not there.
        self.queues[queue.name] = queue

    def remove_exchange(self, exchange: Exchange) -> list[Binding]:
        """Forget an exchange and all bindings from and to it; return those bindings."""
        del self.exchanges[exchange.name]
        self._note_change(exchange)
        self._note_removal()
        gone = list(exchange.bindings.values())
        for binding in gone:
            self._forget(binding)
        gone += self._remove_bindings_to(exchange)
        self.graph.remove(exchange)
        return gone

    def remove_queue(self, queue: Queue) -> list[Binding]:
        """Forget a queue and all bindings to it; return those bindings."""
        del self.queues[queue.name]
        self._note_change(self.exchanges[""])
        self._note_removal()
        return self._remove_bindings_to(queue)

    def remove_placeholder(self, name: str) -> list[Binding]:
        """Forget what refused the messages of a damaged queue; return the bindings to it."""
        placeholder = self.damaged.end_placeholder(name)
        if placeholder is None:
            return []
        self._forget_routes()
        return self._remove_bindings_to(placeholder)

    def end_damaged_binding(self, encoded_name: str) -> None:
        """Let an exchange take publishes again: the document of a damaged binding was replaced."""
        if self.damaged.damaged_bindings.discard(encoded_name):
            self._forget_routes()

    def remove_refusing_exchange(self, name: str) -> list[Binding]:
        """Forget what refused the messages of a damaged exchange; return the bindings to it."""
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
        """Bind and return the binding, or None if the same one is there.

        Its number is the one given, or else the next one of its source.
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
        """Unbind and return what was removed, or None if there is no such binding."""
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
        for binding in gone:
            self._forget(binding)
        return gone

    def _forget(self, binding: Binding) -> None:
        binding.source.unbind(binding)
        self.binding_count -= 1
        self._note_change(binding.source)
        if isinstance(binding.destination, Exchange):
            self.graph.unbind(binding.source, binding.destination)
        bindings = self._bindings_to[binding.destination]
        del bindings[binding]
        if not bindings:
            del self._bindings_to[binding.destination]

    def _note_change(self, exchange: Exchange) -> None:
        """Have the routes found again that lead through an exchange."""
        affected = self.graph.affected_by(exchange)
        if affected is None:
            self._forget_routes()
            return
        for each in affected:
            each.routes_version += 1

    def _note_removal(self) -> None:
        """Keep routes from holding many queues and exchanges that are gone in memory."""
        self._removed_count += 1
        if self._removed_count == REMOVED_MAX:
            self._forget_routes()

    def _forget_routes(self) -> None:
        self._removed_count = 0
        self.routing.forget_all()
        self.publish_targets.forget_all()
