"""What every exchange type offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.binding import Binding, Destination
    from amqp_server.broker.routing.envelope import Envelope
    from amqp_server.protocol.tables import Table


class Matcher(Protocol):
    """The bindings of one exchange, arranged for matching.

    Attributes:
        routes_singly: Whether messages with the same keys may fit different bindings.
    """

    routes_singly: bool

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        """Check a binding that is about to be made.

        Raises:
            PreconditionFailed: This type of exchange cannot have it.
        """
        return

    def add(self, binding: Binding) -> None:
        """Take in a binding that is not there yet."""

    def remove(self, binding: Binding) -> None:
        """Forget a binding that is there."""

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations whose bindings fit any of the keys; one may come twice."""
