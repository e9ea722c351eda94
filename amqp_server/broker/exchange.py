"""An exchange: a name, a type and the bindings that leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.counters.publish_counters import PublishCounters
from amqp_server.broker.policies.effective_policy import NO_POLICY
from amqp_server.broker.routing.matchers import MATCHERS

if TYPE_CHECKING:
    from amqp_server.broker.binding import Binding, BindingIdentity
    from amqp_server.broker.policies.effective_policy import EffectivePolicy
    from amqp_server.protocol.tables import Table


class Exchange:
    """One exchange of one virtual host.

    Args:
        name: Name of the exchange; empty for the default exchange.
        kind: Exchange type, one of `MATCHERS`.
        durable: Whether the exchange survives a restart of the server.
        auto_delete: Whether the broker deletes the exchange with the last binding that leaves it.
        internal: Whether clients may not publish to it.
        arguments: Arguments that the exchange was declared with.

    Attributes:
        alternate: Name of the exchange that gets messages without a route, or None.
        policy: What the policies of its virtual host give to it.
        bindings: Bindings that leave the exchange.
        counters: Counters of what clients have published to it.
        is_deleted: Whether it was deleted; its bindings follow in steps.
        routes_version: Number that grows whenever the routes of messages published here may
            change; the virtual host increments it.

    Raises:
        PreconditionFailed: The arguments are not valid for the type.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
    ) -> None:
        self.name = name
        self.type = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = arguments
        self.alternate = alternate_of(arguments)
        self.policy = NO_POLICY
        self.bindings: dict[BindingIdentity, Binding] = {}
        self.counters = PublishCounters()
        self.next_binding_number = 0
        self.routes_version = 0
        self.is_deleted = False
        self.matcher = MATCHERS[kind](arguments)

    @property
    def is_gone(self) -> bool:
        """Whether nothing is routed to the exchange any more, because it is deleted."""
        return self.is_deleted

    @property
    def awaits_policy(self) -> bool:
        """Whether it is not known if a policy names an alternate exchange for it.

        What it cannot route is refused then: otherwise it would be confirmed and dropped. Clients
        cannot publish to an internal exchange.
        """
        return (
            self.policy.is_unknown
            and bool(self.name)
            and not self.internal
            and "alternate-exchange" not in self.arguments
        )

    def change_policy(self, policy: EffectivePolicy) -> None:
        """Take the alternate exchange of a policy, unless the arguments name one.

        `VirtualHost.change_policy` calls it: routes have to follow.
        """
        self.policy = policy
        if self.name and "alternate-exchange" not in self.arguments:
            # The default exchange refuses or drops what it cannot route, as in RabbitMQ.
            self.alternate = policy.definition.get("alternate-exchange") or None

    def bind(self, binding: Binding) -> None:
        """Add a binding that the exchange does not have yet."""
        self.bindings[binding.identity] = binding
        self.next_binding_number = max(self.next_binding_number, binding.number + 1)
        self.matcher.add(binding)

    def unbind(self, binding: Binding) -> None:
        """Remove a binding of the exchange."""
        del self.bindings[binding.identity]
        self.matcher.remove(binding)

    def unbind_last(self) -> Binding:
        """Remove and return the newest binding; there must be one. O(1)."""
        _, binding = self.bindings.popitem()
        self.matcher.remove(binding)
        return binding


def alternate_of(arguments: Table) -> str | None:
    """Return the exchange that gets messages without a route, or None."""
    value = arguments.get("alternate-exchange")
    if value is None or not isinstance(value.value, bytes):
        return None
    # RabbitMQ uses the bindings of the alternate exchange, and the default exchange has none.
    return value.value.decode("utf-8", "surrogateescape") or None
