"""Direct exchange: the routing key equals the binding key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.routing.matchers.matcher import Matcher
from amqp_server.broker.routing.steps import STEP_VISITS, result_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.broker.routing.matchers.matcher import Destination, MatchedBinding
    from amqp_server.broker.routing.steps import Steps


class DirectMatcher(Matcher):
    """Bindings by key: one dictionary lookup a match."""

    routes_singly = False

    def __init__(self) -> None:
        # Dicts: thousands of bindings may have one key, and each is removed at once.
        self._by_key: dict[str, dict[MatchedBinding, None]] = {}

    def add(self, binding: MatchedBinding) -> None:
        """Take in a binding."""
        self._by_key.setdefault(binding.routing_key, {})[binding] = None

    def remove(self, binding: MatchedBinding) -> None:
        """Forget a binding."""
        bindings = self._by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.routing_key]

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations bound with exactly one of the keys."""
        return result_of(self.match_in_steps(envelope))

    def match_in_steps(self, envelope: Envelope) -> Steps[Sequence[Destination]]:
        """Return the steps that find the same."""
        found: list[Destination] = []
        is_step_due = STEP_VISITS
        for key in dict.fromkeys(envelope.routing_keys):
            # Some may come and go between two steps.
            bindings = tuple(self._by_key.get(key, ()))
            for at in range(0, len(bindings), STEP_VISITS):
                found += [binding.destination for binding in bindings[at : at + STEP_VISITS]]
                if len(found) >= is_step_due:
                    is_step_due = len(found) + STEP_VISITS
                    yield
        return found

    def branch_of(self, routing_key: str) -> str | bool:
        """Return the key, or False for all keys without a binding."""
        return routing_key if routing_key in self._by_key else False
