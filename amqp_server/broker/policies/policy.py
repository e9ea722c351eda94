"""A policy: what the queues and exchanges get whose names match its pattern."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from amqp_server.broker.queue_settings import QueueType

if TYPE_CHECKING:
    from amqp_server.broker.policies.name_pattern import NamePattern

Definition = dict[str, Any]
"""Values by key, as JSON has them; see `keys`."""


class PolicyKind(StrEnum):
    """Kind of a policy. A queue gets one of each; the operator's bounds the user's."""

    USER = "policy"
    OPERATOR = "operator policy"


class ApplyTo(StrEnum):
    """Objects that a policy applies to, by the names of RabbitMQ."""

    ALL = "all"
    QUEUES = "queues"
    EXCHANGES = "exchanges"
    CLASSIC_QUEUES = "classic_queues"
    QUORUM_QUEUES = "quorum_queues"
    STREAMS = "streams"

    def includes_queue(self, kind: QueueType) -> bool:
        """Return whether queues of a type are included."""
        return self in _OF_TYPE[kind]

    @property
    def includes_exchanges(self) -> bool:
        """Whether exchanges are included."""
        return self in {ApplyTo.ALL, ApplyTo.EXCHANGES}


_ALL_QUEUES: Final = frozenset((ApplyTo.ALL, ApplyTo.QUEUES))
_OF_TYPE: Final = {
    QueueType.CLASSIC: _ALL_QUEUES | {ApplyTo.CLASSIC_QUEUES},
    QueueType.QUORUM: _ALL_QUEUES | {ApplyTo.QUORUM_QUEUES},
    QueueType.STREAM: _ALL_QUEUES | {ApplyTo.STREAMS},
}


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy or operator policy of one virtual host. `validation` makes it from JSON values.

    Attributes:
        name: Name of the policy; unique in its virtual host and kind.
        pattern: Searched in the names of queues and exchanges.
        definition: Values by key; not to be changed.
        apply_to: What it applies to.
        priority: The policy with the highest one counts.
        ttl_since_ns: Since when the virtual host has this pattern with this `message-ttl`, in
            nanoseconds since 1970 UTC. After a restart, messages that were published before have
            no lifetime from it.
    """

    name: str
    pattern: NamePattern
    definition: Definition
    apply_to: ApplyTo = ApplyTo.ALL
    priority: int = 0
    ttl_since_ns: int = 0

    def with_ttl_since(self, since_ns: int) -> Policy:
        """Return the policy with another `ttl_since_ns`."""
        return replace(self, ttl_since_ns=since_ns)

    def as_json(self, vhost: str) -> dict[str, Any]:
        """Return the policy as RabbitMQ's HTTP API and its definitions have it.

        Args:
            vhost: Virtual host of the policy.
        """
        return {"vhost": vhost, "name": self.name, **self._values()}

    def as_parameter(self, vhost: str) -> dict[str, Any]:
        """Return an operator's policy as RabbitMQ's definitions have it, among the parameters.

        `validation.policy_from_json` reads `value` back, together with the name.

        Args:
            vhost: Virtual host of the policy.
        """
        return {
            "vhost": vhost,
            "component": "operator_policy",
            "name": self.name,
            "value": self._values(),
        }

    def _values(self) -> dict[str, Any]:
        return {
            "pattern": self.pattern.text,
            "apply-to": self.apply_to.value,
            "definition": dict(self.definition),
            "priority": self.priority,
        }
