"""The policies of one virtual host, and which of them a queue or exchange gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.policies.effective_policy import (
    NO_POLICY,
    UNKNOWN_POLICY,
    EffectivePolicy,
    merged,
)
from amqp_server.broker.policies.keys import KEYS
from amqp_server.broker.policies.policy import Policy, PolicyKind
from amqp_server.broker.policies.unknown_policy import UnknownPolicy
from amqp_server.broker.queue_settings import QueueType
from metadata.names import encode_name

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Ranked(NamedTuple):
    """A policy, and the types of queue that it applies to."""

    policy: Policy
    types: frozenset[QueueType]


class VhostPolicies:
    """All policies of one virtual host. The event loop owns it.

    Changing it changes no queue and no exchange: `Policies` does that.
    """

    def __init__(self) -> None:
        self._by_name: dict[PolicyKind, dict[str, Policy]] = {kind: {} for kind in PolicyKind}
        # The one that counts first.
        self._ranked: dict[PolicyKind, list[_Ranked]] = {kind: [] for kind in PolicyKind}
        self._damaged: dict[PolicyKind, dict[str, UnknownPolicy]] = {
            kind: {} for kind in PolicyKind
        }

    def of(self, kind: PolicyKind) -> dict[str, Policy]:
        """Return the policies of a kind by name; not to be changed."""
        return self._by_name[kind]

    def put(self, kind: PolicyKind, policies: Iterable[Policy]) -> None:
        """Add policies; they replace those with the same names."""
        for policy in policies:
            self._by_name[kind][policy.name] = policy
            self._damaged[kind].pop(encode_name(policy.name), None)
        self._rank(kind)

    def remove(self, kind: PolicyKind, name: str) -> None:
        """Remove a policy, or forget that its document is damaged."""
        self._by_name[kind].pop(name, None)
        self._damaged[kind].pop(encode_name(name), None)
        self._rank(kind)

    def damage(self, kind: PolicyKind, encoded_name: str, unknown: UnknownPolicy) -> None:
        """Record a document that is damaged or missing: no policy counts until it is replaced.

        Args:
            kind: Whose policy it is.
            encoded_name: `encode_name` of its name; empty for a directory of all names.
            unknown: What is known of it.
        """
        self._damaged[kind][encoded_name] = unknown

    def accept_loss(self, kind: PolicyKind, encoded_name: str) -> bool:
        """Forget a damaged document that is gone for good; return whether it was damaged."""
        return self._damaged[kind].pop(encoded_name, None) is not None

    def is_damaged(self, kind: PolicyKind, name: str) -> bool:
        """Return whether the document of a policy is damaged or missing."""
        return encode_name(name) in self._damaged[kind]

    @property
    def damaged(self) -> list[tuple[PolicyKind, str, UnknownPolicy]]:
        """Kind, encoded name and state of each damaged document."""
        return [
            (kind, name, unknown)
            for kind, found in self._damaged.items()
            for name, unknown in sorted(found.items())
        ]

    @property
    def are_unknown(self) -> bool:
        """Whether a document is damaged, so that it is not known which policy applies to what."""
        return any(self._damaged.values())

    def for_queue(self, name: str, kind: QueueType) -> EffectivePolicy:
        """Return what the policies give to a queue of this name and type. O(policies)."""
        if self.are_unknown:
            return UNKNOWN_POLICY
        if not (self._ranked[PolicyKind.USER] or self._ranked[PolicyKind.OPERATOR]):
            return NO_POLICY
        return merged(
            self._first(PolicyKind.USER, name, kind), self._first(PolicyKind.OPERATOR, name, kind)
        )

    def for_exchange(self, name: str) -> EffectivePolicy:
        """Return what the policies give to an exchange of this name. O(policies).

        Operator policies hold nothing that an exchange has.
        """
        if self.are_unknown:
            return UNKNOWN_POLICY
        for policy, _ in self._ranked[PolicyKind.USER]:
            if policy.apply_to.includes_exchanges and policy.pattern.matches(name):
                return merged(policy, None)
        return NO_POLICY

    def _first(self, whose: PolicyKind, name: str, kind: QueueType) -> Policy | None:
        for policy, types in self._ranked[whose]:
            if kind in types and policy.pattern.matches(name):
                return policy
        return None

    def _rank(self, kind: PolicyKind) -> None:
        policies = sorted(
            self._by_name[kind].values(), key=lambda policy: (-policy.priority, policy.name)
        )
        self._ranked[kind] = [_Ranked(each, queue_types(each)) for each in policies]


def queue_types(policy: Policy) -> frozenset[QueueType]:
    """Return the types of queue that a policy applies to.

    A policy with one key that a type cannot have does not apply to queues of that type at all.

    Source: RabbitMQ `rabbit_policy:is_applicable`.
    """
    return frozenset(
        kind
        for kind in QueueType
        if policy.apply_to.includes_queue(kind)
        and all(kind in KEYS[name].types for name in policy.definition)
    )
