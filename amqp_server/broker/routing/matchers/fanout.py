"""Fanout exchange: everything goes everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.matcher import Matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.routing.envelope import Envelope


class FanoutMatcher(Matcher):
    """All bindings, whatever their keys."""

    routes_singly = False

    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        """Take in a binding."""
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        """Forget a binding."""
        del self._bindings[binding]

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return every destination."""
        return [binding.destination for binding in self._bindings]

    def branch_of(self, routing_key: str) -> bool:
        """Return the same for every key."""
        return True
