"""Events of bindings that go with the queue or exchange at one of their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.binding import Binding
    from amqp_server.broker.events.events import Events


def report_unbound(events: Events, vhost: str, binding: Binding) -> None:
    """Tell that a binding is gone, because one of its ends is."""
    events.report(
        "binding.deleted",
        vhost=vhost,
        object_name=binding.destination.name,
        details={
            "source": binding.source.name,
            "destination_type": binding.identity.kind,
            "routing_key": binding.routing_key,
        },
        attributes=lambda: {"arguments": binding.arguments},
    )
