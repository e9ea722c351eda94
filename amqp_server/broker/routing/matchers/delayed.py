"""Delayed exchange: routes as the type that its argument names, when the time has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.matcher import Matcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.broker.routing.matchers.matcher import Destination, MatchedBinding
    from amqp_server.broker.routing.steps import Steps
    from amqp_server.protocol.tables import Table


class DelayedMatcher(Matcher):
    """The bindings of a delayed exchange; whether a message is kept first is not its concern.

    Args:
        routed_as: The matcher of the type that the argument names.
    """

    # Equal keys may be kept for different times.
    routes_singly = True

    def __init__(self, routed_as: Matcher) -> None:
        self._routed_as = routed_as
        self.rearranges_all = routed_as.rearranges_all

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        """Check a binding as the other type does."""
        self._routed_as.check_binding(routing_key, arguments)

    def add(self, binding: MatchedBinding) -> None:
        """Take in a binding."""
        self._routed_as.add(binding)

    def on_destination_deleted(self) -> None:
        """Note the deletion as the other type does."""
        self._routed_as.on_destination_deleted()

    def remove(self, binding: MatchedBinding) -> None:
        """Forget a binding."""
        self._routed_as.remove(binding)

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations of a message that is not kept, or no longer."""
        return self._routed_as.match(envelope)

    def match_in_steps(self, envelope: Envelope) -> Steps[Sequence[Destination]]:
        """Return the steps of the other type."""
        return self._routed_as.match_in_steps(envelope)
