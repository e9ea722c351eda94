"""Fanout exchange: everything goes everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.matcher import Matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.broker.routing.matchers.matcher import Destination, MatchedBinding


class FanoutMatcher(Matcher):
    """All destinations, whatever the keys of their bindings.

    They are kept with the number of their bindings: a match copies the destinations and looks at
    no binding.
    """

    routes_singly = False

    def __init__(self) -> None:
        self._bindings_to: dict[Destination, int] = {}

    def add(self, binding: MatchedBinding) -> None:
        """Take in a binding."""
        count = self._bindings_to.get(binding.destination, 0)
        self._bindings_to[binding.destination] = count + 1

    def remove(self, binding: MatchedBinding) -> None:
        """Forget a binding."""
        self._bindings_to[binding.destination] -= 1
        if not self._bindings_to[binding.destination]:
            del self._bindings_to[binding.destination]

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return every destination, each once."""
        return tuple(self._bindings_to)

    def branch_of(self, routing_key: str) -> bool:
        """Return the same for every key."""
        return True
