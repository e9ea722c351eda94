"""Routing: from an exchange, over bindings and alternate exchanges, to queues.

Where the one key of a message alone decides, the broker finds the routes of keys that are alike
once, and remembers them in a `RouteTree` until an exchange on the way changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.exchange import Exchange
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.recently_used import RecentlyUsed
from amqp_server.broker.routing.route_tree import Route, RouteTree
from amqp_server.broker.transfers.delay import delay_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.virtual_host import VirtualHost

STEPS_MAX = 16_384
"""Steps of all route trees of a virtual host together; at the bound it forgets all of them."""
EXCHANGES_MAX = 4096
"""Exchanges of which it remembers whether they route singly; twice as many at most."""


class Routing:
    """Finds the queues that messages go to, in one virtual host.

    Args:
        virtual_host: Its exchanges and queues. The `routes_version` of an exchange says whether
            what is remembered of it is still right.
    """

    def __init__(self, virtual_host: VirtualHost) -> None:
        self._virtual_host = virtual_host
        self._trees: dict[Exchange, RouteTree] = {}
        self._step_count = 0
        self._singly = RecentlyUsed[Exchange, tuple[int, bool]](EXCHANGES_MAX)

    def route(self, exchange: Exchange, envelope: Envelope) -> Sequence[Queue]:
        """Return the queues that a message goes to, each once; not to be changed."""
        key, *copies = envelope.routing_keys
        # Lists of copies can be long, and are seldom the same.
        if exchange.name == "" or copies or self.routes_singly(exchange):
            return self._walk(exchange, envelope, [])
        return self.route_of(exchange, key).queues

    def route_of(self, exchange: Exchange, routing_key: str) -> Route:
        """Return the route of messages whose key alone decides; it is the same for similar keys.

        Args:
            exchange: Exchange that they are published to; not the default exchange, and not one
                that `routes_singly`.
            routing_key: Their only routing key.
        """
        tree = self._tree_of(exchange)
        route = tree.find(routing_key)
        if route is not None:
            return route
        asked: list[Exchange] = []
        route = Route(self._walk(exchange, Envelope((routing_key,)), asked))
        if self._step_count + len(asked) > STEPS_MAX:
            self.forget_all()
            tree = self._tree_of(exchange)
        self._step_count -= tree.step_count
        route = tree.learn(routing_key, asked, route)
        self._step_count += tree.step_count
        return route

    def known_route_of(self, exchange: Exchange, routing_key: str) -> Route | None:
        """Return what `route_of` returns if it is known, without a search."""
        tree = self._trees.get(exchange)
        if tree is None or tree.routes_version != exchange.routes_version:
            return None
        return tree.find(routing_key)

    def _tree_of(self, exchange: Exchange) -> RouteTree:
        tree = self._trees.get(exchange)
        if tree is None or tree.routes_version != exchange.routes_version:
            if tree is not None:
                self._step_count -= tree.step_count
            tree = self._trees[exchange] = RouteTree(exchange.routes_version)
            self._step_count += tree.step_count
        return tree

    def routes_singly(self, exchange: Exchange) -> bool:
        """Return whether two messages with the same keys may go different ways from here."""
        found = self._singly.get(exchange)
        if found is None or found[0] != exchange.routes_version:
            found = exchange.routes_version, self._reaches_one_that_routes_singly(exchange)
            self._singly.put(exchange, found)
        return found[1]

    def forget_all(self) -> None:
        """Forget all routes."""
        self._trees.clear()
        self._step_count = 0
        self._singly.clear()

    def _walk(
        self, exchange: Exchange, envelope: Envelope, asked: list[Exchange]
    ) -> tuple[Queue, ...]:
        """Follow exchange-to-exchange bindings with a visited set, so that cycles end.

        Args:
            exchange: Exchange that the message is published to.
            envelope: What routing looks at.
            asked: Gets the exchanges whose bindings were matched, in order.
        """
        queues: dict[Queue, None] = {}
        visited = {exchange}
        pending = [exchange]
        while pending:
            current = pending.pop()
            if current.name == "":
                vhost = self._virtual_host
                for key in envelope.routing_keys:
                    queue = vhost.queues.get(key) or vhost.damaged.refusing(key)
                    if queue is not None:
                        queues[queue] = None
                continue
            refusing = self._virtual_host.damaged.refusing_binding(current.name)
            if refusing is not None:
                queues[refusing] = None
            delay_queue = self._virtual_host.delay_queues.get(current)
            if delay_queue is not None and delay_ms(envelope.headers) > 0:
                queues[delay_queue] = None
                continue
            asked.append(current)
            matched = current.matcher.match(envelope)
            alternate = self._alternate_of(current)
            if not matched and alternate is not None and alternate not in visited:
                # Each exchange by itself: what another one of the chain matched does not count.
                visited.add(alternate)
                pending.append(alternate)
            for destination in matched:
                if not isinstance(destination, Exchange):
                    queues[destination] = None
                elif destination not in visited:
                    visited.add(destination)
                    pending.append(destination)
        return tuple(queues)

    def _reaches_one_that_routes_singly(self, exchange: Exchange) -> bool:
        visited = {exchange}
        pending = [exchange]
        while pending:
            current = pending.pop()
            if current.matcher.routes_singly:
                return True
            for reached in (
                *self._virtual_host.graph.bound_to(current),
                self._alternate_of(current),
            ):
                if reached is not None and reached not in visited:
                    visited.add(reached)
                    pending.append(reached)
        return False

    def _alternate_of(self, exchange: Exchange) -> Exchange | None:
        """Return the exchange that takes what `exchange` cannot route; one not there is none."""
        alternate = exchange.alternate
        if alternate is None:
            return None
        vhost = self._virtual_host
        return vhost.exchanges.get(alternate) or vhost.damaged.refusing_exchange(alternate)
