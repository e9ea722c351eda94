"""A route tree: from a routing key to a route that is already known, however many keys there are.

A route is decided step by step: each exchange on the way looks at the key, and some keys make no
difference to it. What an exchange sees of a key is its *branch* (`Matcher.branch_of`): for a topic
exchange, the place in its automaton where the words of the key end. A tree follows the branches of
one exchange, then of the exchange that this branch leads to, until the route is known. So a key
that never came before costs no search, and takes no memory, if keys like it have come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.broker.routing.known_routes import KNOWN_WORDS_MAX, Step, known_route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.exchange import Exchange
    from amqp_server.broker.queue import Queue


def is_quick(routing_key: str, exchange_count: int) -> bool:
    """Return whether the known route of a key over so many exchanges is found quickly."""
    return (routing_key.count(".") + 1) * exchange_count <= KNOWN_WORDS_MAX


QUEUES_PER_STEP: Final = 32
"""Queues of a route that take as much memory as a step, about 300 octets."""


class Route:
    """The queues that messages go to, each once. One object stands for many routing keys."""

    __slots__ = ("queues",)

    def __init__(self, queues: tuple[Queue, ...]) -> None:
        self.queues = queues


class RouteTree:
    """The known routes of messages that are published to one exchange.

    Args:
        routes_version: `routes_version` of that exchange; the tree is valid while the two are
            equal.

    Attributes:
        step_count: What the tree costs in memory: its steps, and the queues of its routes, of which
            as many as `QUEUES_PER_STEP` count as a step.
    """

    def __init__(self, routes_version: int) -> None:
        self.routes_version = routes_version
        self.step_count = 1
        self._start = Step()
        # Equal routes are one object: thousands of keys may lead to the same thousand queues.
        self._routes: dict[tuple[Queue, ...], Route] = {}

    def find(self, routing_key: str) -> Route | None:
        """Return the route of a key if it is known and found quickly.

        O(words of the key), times the exchanges on its way, which is `KNOWN_WORDS_MAX` at most.
        """
        route: Route | None = known_route(self._start, routing_key)
        return route

    def learn(self, routing_key: str, exchanges: Iterable[Exchange], route: Route) -> Route:
        """Remember the route of a key that is not known.

        Args:
            routing_key: Key that was matched.
            exchanges: Exchanges that were asked on the way, in order. All keys of the same branches
                ask the same ones.
            route: Route to remember, unless an equal one is known at this place.

        Returns:
            The route that is known from now on; the given one if it cannot be remembered.
        """
        step = self._start
        for exchange in exchanges:
            step.exchange = exchange
            branch = exchange.matcher.known_branch_of(routing_key)
            if branch is None:
                # It takes long to find, or what the match has found is forgotten already.
                return route
            after = step.following.get(branch)
            if after is None:
                after = step.following[branch] = Step()
                self.step_count += 1
            step = after
        remembered: Route | None = step.route
        if remembered is None:
            known = self._routes.get(route.queues)
            if known is None:
                known = self._routes[route.queues] = route
                self.step_count += len(route.queues) // QUEUES_PER_STEP
            step.route = remembered = known
        return remembered
