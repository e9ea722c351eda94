"""Effective policy of a queue or exchange: a user's and an operator's policy, merged.

Source: RabbitMQ `rabbit_policy:merge_policies`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from amqp_server.broker.policies.keys import KEYS, Counts
from amqp_server.broker.policies.policy import Definition, Policy

_TTL: Final = "message-ttl"


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policies of one queue or exchange.

    Attributes:
        user: The user's policy that counts, or None.
        operator: The operator's policy that counts, or None.
        definition: Both merged; empty if there is neither. Not to be changed.
        is_unknown: Whether the document of a policy that may apply cannot be read or is missing:
            see `unknown_policy`.
    """

    user: Policy | None = None
    operator: Policy | None = None
    definition: Definition = field(default_factory=dict)
    is_unknown: bool = False

    @property
    def ttl_since_ns(self) -> int:
        """Since when the effective `message-ttl` holds, in nanoseconds since 1970; 0 without."""
        ttl = self.definition.get(_TTL)
        since = [
            each.ttl_since_ns
            for each in (self.user, self.operator)
            if each is not None and ttl is not None and each.definition.get(_TTL) == ttl
        ]
        return min(since, default=0)

    def as_json(self) -> dict[str, Any]:
        """Return names and definition as RabbitMQ shows them for a queue."""
        return {
            "policy": None if self.user is None else self.user.name,
            "operator_policy": None if self.operator is None else self.operator.name,
            "effective_policy_definition": dict(self.definition),
        }


NO_POLICY: Final = EffectivePolicy()
"""Of queues and exchanges that no policy applies to."""
UNKNOWN_POLICY: Final = EffectivePolicy(is_unknown=True)
"""Of those in a virtual host of which one policy is not known: any other might be the wrong one."""


def merged(user: Policy | None, operator: Policy | None) -> EffectivePolicy:
    """Return what a user's and an operator's policy give together."""
    if user is None and operator is None:
        return NO_POLICY
    definition = dict(user.definition) if user is not None else {}
    for name, value in operator.definition.items() if operator is not None else ():
        definition[name] = (
            choose(KEYS[name].counts, value, definition[name]) if name in definition else value
        )
    return EffectivePolicy(user, operator, definition)


def choose(counts: Counts, first: Any, second: Any) -> Any:  # noqa: ANN401 - values of any key
    """Return which of two values of one key counts."""
    match counts:
        case Counts.LOWER:
            return min(first, second)
        case Counts.LIMIT:
            return max(first, second) if min(first, second) < 0 else min(first, second)
        case Counts.FIRST:
            return first
