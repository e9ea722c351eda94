"""Routing: from an exchange, over bindings and alternate exchanges, to queues.

Where the one key of a message alone decides, the broker finds the routes of keys that are alike
once, and remembers them in a `RouteTree` until an exchange on the way changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from amqp_server.broker.exchange import Exchange
from amqp_server.broker.routing.envelope import Envelope
from amqp_server.broker.routing.recently_used import RecentlyUsed
from amqp_server.broker.routing.route_tree import QUEUES_PER_STEP, Route, RouteTree, is_quick
from amqp_server.broker.routing.steps import STEP_VISITS, result_of
from amqp_server.broker.transfers.delay import delay_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from amqp_server.broker.damaged_definitions import DamagedDefinitions
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.routing.exchange_graph import ExchangeGraph
    from amqp_server.broker.routing.matchers.matcher import Destination
    from amqp_server.broker.routing.steps import Steps

STEPS_MAX = 16_384
"""Steps of all route trees of a virtual host together; at the bound it forgets all of them."""
_EXCHANGE_VISITS = 16
"""Number of bindings that take as long to look at as an exchange without any."""
TRIES_MAX = 3
"""Searches for one route; other clients may change bindings in each of them, but the last counts.

Otherwise a client that changes bindings all the time would keep messages from their queues.
"""
EXCHANGES_MAX = 4096
"""Exchanges of which it remembers whether they route singly; twice as many at most."""


class RoutingTables(Protocol):
    """A virtual host, as routing sees it: what names lead to."""

    @property
    def exchanges(self) -> Mapping[str, Exchange]:
        """Exchanges by name."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Queues by name."""

    @property
    def delay_queues(self) -> Mapping[Exchange, Queue]:
        """Hidden queues of delayed exchanges."""

    @property
    def graph(self) -> ExchangeGraph:
        """Graph of the exchanges that lead to others."""

    @property
    def damaged(self) -> DamagedDefinitions:
        """Placeholders of objects that the start could not recover."""


class Routing:
    """Finds the queues that messages go to, in one virtual host.

    Args:
        virtual_host: Its exchanges and queues. The `routes_version` of an exchange says whether
            what is remembered of it is still right.

    Attributes:
        forgotten_count: How often all routes were forgotten: what was found in steps before the
            last time must not be remembered.
    """

    def __init__(self, virtual_host: RoutingTables) -> None:
        self._virtual_host = virtual_host
        self.forgotten_count = 0
        # Grows with changes that no `routes_version` shows.
        self._changes = 0
        self._trees: dict[Exchange, RouteTree] = {}
        self._step_count = 0
        self._singly = RecentlyUsed[Exchange, tuple[int, bool]](EXCHANGES_MAX)

    def route(self, exchange: Exchange, envelope: Envelope) -> Sequence[Queue]:
        """Return the queues that a message goes to, each once; not to be changed."""
        return result_of(self.route_in_steps(exchange, envelope))

    def route_in_steps(self, exchange: Exchange, envelope: Envelope) -> Steps[Sequence[Queue]]:
        """Return the steps that find the same. The route is that of some moment between them.

        A search in which bindings change is repeated, `TRIES_MAX` times at most: it may have looked
        at one exchange before a queue moved there, and at the other one after that.

        Raises:
            PreconditionFailed: The message meets more than it may (`Envelope.visit`).
        """
        for _ in range(TRIES_MAX):
            moment = self.moment_of(exchange)
            queues = yield from self._search(exchange, envelope)
            if moment == self.moment_of(exchange):
                break
        return queues

    def moment_of(self, exchange: Exchange) -> tuple[int, int]:
        """Return what changes with any change that may change a route from an exchange."""
        return exchange.routes_version, self._changes

    def _search(self, exchange: Exchange, envelope: Envelope) -> Steps[Sequence[Queue]]:
        """Return the steps of one search; `route_in_steps` repeats it."""
        # Lists of copies can be long, and are seldom the same.
        if exchange.name == "" or len(envelope.routing_keys) > 1:
            return (yield from self._walk(exchange, envelope, []))
        if (yield from self.singly_in_steps(exchange)):
            return (yield from self._walk(exchange, envelope, []))
        return (yield from self.route_of(exchange, envelope)).queues

    def route_of(self, exchange: Exchange, envelope: Envelope) -> Steps[Route]:
        """Return the steps to a route that the key alone decides; similar keys have the same.

        The caller repeats them if `moment_of` the exchange changes.

        Args:
            exchange: Exchange that messages are published to; not the default exchange, and not
                one that routes singly.
            envelope: Their only routing key.

        Raises:
            PreconditionFailed: A message meets more than it may (`Envelope.visit`).
        """
        routing_key = envelope.routing_keys[0]
        tree = self._tree_of(exchange)
        route = tree.find(routing_key)
        if route is not None:
            return route
        asked: list[Exchange] = []
        route = Route((yield from self._walk(exchange, envelope, asked)))
        is_changed = (
            self._trees.get(exchange) is not tree or tree.routes_version != exchange.routes_version
        )
        if is_changed or not is_quick(routing_key, len(asked)):
            return route
        cost = len(asked) + len(route.queues) // QUEUES_PER_STEP
        if self._step_count + cost > STEPS_MAX:
            self._forget_routes()
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
        return result_of(self.singly_in_steps(exchange))

    def singly_in_steps(self, exchange: Exchange) -> Steps[bool]:
        """Return the steps that find whether two messages with the same keys may part."""
        found = self._singly.get(exchange)
        if found is None or found[0] != exchange.routes_version:
            version, forgotten_count = exchange.routes_version, self.forgotten_count
            found = version, (yield from self._reaches_one_that_routes_singly(exchange))
            if forgotten_count == self.forgotten_count:
                self._singly.put(exchange, found)
        return found[1]

    def forget_all(self) -> None:
        """Forget all routes, because any of them may have changed."""
        self._changes += 1
        self._forget_routes()

    def _forget_routes(self) -> None:
        self.forgotten_count += 1
        self._trees.clear()
        self._step_count = 0
        self._singly.clear()

    def _walk(
        self, exchange: Exchange, envelope: Envelope, asked: list[Exchange]
    ) -> Steps[tuple[Queue, ...]]:
        """Follow exchange-to-exchange bindings with a visited set, so that cycles end.

        Args:
            exchange: Exchange that the message is published to.
            envelope: What routing looks at.
            asked: Gets the exchanges whose bindings were matched, in order.
        """
        envelope.begin_search()
        queues: dict[Destination, None] = {}
        looked_at = 0
        visited = {exchange}
        pending = [exchange]
        while pending:
            current = pending.pop()
            if current.is_deleted:
                # Its bindings may still be there, and its delay queue is not.
                continue
            if current.name == "":
                queues |= dict.fromkeys(self._named(envelope))
                continue
            refusing = self._virtual_host.damaged.refusing_binding(current.name)
            if refusing is not None:
                queues[refusing] = None
            delay_queue = self._virtual_host.delay_queues.get(current)
            if delay_queue is not None and delay_ms(envelope.headers) > 0:
                queues[delay_queue] = None
                continue
            asked.append(current)
            found = yield from current.matcher.match_in_steps(envelope)
            envelope.visit(1 + len(found))
            # The bindings of what was deleted just now may still be there.
            matched = [each for each in found if not each.is_gone]
            alternate = self._alternate_of(current)
            if not matched and alternate is not None and alternate not in visited:
                # Each exchange by itself: what another one of the chain matched does not count.
                visited.add(alternate)
                pending.append(alternate)
            for at, destination in enumerate(matched, 1):
                if not isinstance(destination, Exchange):
                    queues[destination] = None
                elif destination not in visited:
                    visited.add(destination)
                    pending.append(destination)
                if at % STEP_VISITS == 0:
                    yield
            looked_at += _EXCHANGE_VISITS + len(matched)
            if looked_at >= STEP_VISITS:
                looked_at = 0
                yield
        # What is no exchange is a queue; matchers know neither.
        return cast("tuple[Queue, ...]", tuple(queues))

    def _named(self, envelope: Envelope) -> Iterator[Queue]:
        """Iterate over the queues whose names are routing keys: the default exchange."""
        vhost = self._virtual_host
        for key in envelope.routing_keys:
            queue = vhost.queues.get(key) or vhost.damaged.refusing(key)
            if queue is not None and not queue.is_gone:
                yield queue

    def _reaches_one_that_routes_singly(self, exchange: Exchange) -> Steps[bool]:
        visited = {exchange}
        pending = [exchange]
        looked_at = 0
        while pending:
            current = pending.pop()
            if current.matcher.routes_singly:
                return True
            for reached in (
                *self._virtual_host.graph.bound_to(current),
                self._alternate_of(current),
            ):
                looked_at += 1
                if looked_at % STEP_VISITS == 0:
                    yield
                if reached is not None and not reached.is_deleted and reached not in visited:
                    visited.add(reached)
                    pending.append(reached)
        return False

    def _alternate_of(self, exchange: Exchange) -> Exchange | None:
        """Return the exchange that takes what `exchange` cannot route; one not there is none."""
        alternate = exchange.alternate
        vhost = self._virtual_host
        if alternate is None:
            return vhost.damaged.refusing_alternate if exchange.awaits_policy else None
        return vhost.exchanges.get(alternate) or vhost.damaged.refusing_exchange(alternate)
