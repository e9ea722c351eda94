"""Direct exchange: the routing key equals the binding key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.matcher import Matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.routing.envelope import Envelope


class DirectMatcher(Matcher):
    """Bindings by key: one dictionary lookup a match."""

    routes_singly = False

    def __init__(self) -> None:
        self._by_key: dict[str, list[Binding]] = {}

    def add(self, binding: Binding) -> None:
        """Take in a binding."""
        self._by_key.setdefault(binding.routing_key, []).append(binding)

    def remove(self, binding: Binding) -> None:
        """Forget a binding."""
        bindings = self._by_key[binding.routing_key]
        bindings.remove(binding)
        if not bindings:
            del self._by_key[binding.routing_key]

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations bound with exactly one of the keys."""
        return [
            binding.destination
            for key in envelope.routing_keys
            for binding in self._by_key.get(key, ())
        ]

    def branch_of(self, routing_key: str) -> str | bool:
        """Return the key, or False for all keys without a binding."""
        return routing_key if routing_key in self._by_key else False
