"""What every exchange type offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.routing.envelope import Envelope

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from amqp_server.broker.routing.steps import Steps
    from amqp_server.protocol.tables import Table


class Destination(Protocol):
    """Where a binding leads, as a matcher sees it; hashed and compared by identity."""

    @property
    def name(self) -> str:
        """Name of the queue or exchange."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing is routed to it any more: it is deleted, or is about to be."""


class MatchedBinding(Protocol):
    """A binding, as a matcher sees it; hashed and compared by identity."""

    @property
    def destination(self) -> Destination:
        """Where it leads."""

    @property
    def routing_key(self) -> str:
        """Its binding key."""

    @property
    def arguments(self) -> Table:
        """Its arguments."""

    @property
    def number(self) -> int:
        """Its place among the bindings of the exchange, in the order of their creation."""


class Matcher(Protocol):
    """The bindings of one exchange, arranged for matching.

    Attributes:
        routes_singly: Whether messages with the same keys may fit different bindings.
        rearranges_all: Whether the match after a change of bindings looks at all of them.
    """

    routes_singly: bool
    rearranges_all: bool = False

    def check_binding(self, routing_key: str, arguments: Table) -> None:
        """Check a binding that is about to be made.

        Raises:
            PreconditionFailed: This type of exchange cannot have it.
        """
        return

    def add(self, binding: MatchedBinding) -> None:
        """Take in a binding that is not there yet."""

    def on_destination_deleted(self) -> None:
        """Leave out a destination that is gone from now on; its bindings are removed later.

        O(1). A type that divides messages between destinations divides them again: at the deletion,
        because the place of a message must not depend on the messages before it.
        """
        return

    def remove(self, binding: MatchedBinding) -> None:
        """Forget a binding that is there."""

    def match(self, envelope: Envelope) -> Sequence[Destination]:
        """Return the destinations whose bindings fit any of the keys; one may come twice.

        Deleted ones may be among them. A type that chooses between destinations chooses none of
        these.
        """

    def match_in_steps(self, envelope: Envelope) -> Steps[Sequence[Destination]]:
        """Return the steps that find the same; bindings may come and go between two of them.

        A type of exchange whose `match` takes a short time in any case has a single step.

        Raises:
            PreconditionFailed: The message meets more than it may (`Envelope.visit`).
        """
        return self.match(envelope)
        yield

    def branch_of(self, routing_key: str) -> Hashable:
        """Return what decides where messages go: keys of one branch fit the same bindings.

        Asked only where the key alone decides (`routes_singly` is False). A branch is not None, and
        stays what it is while the bindings do not change.
        """
        return tuple(self.match(Envelope((routing_key,))))

    def known_branch_of(self, routing_key: str) -> Hashable | None:
        """Return the branch of a key; None if finding it may take long."""
        return self.branch_of(routing_key)
