"""Interface of a queue for its parts.

A queue passes itself to the methods of its parts that need it. If both referred to each other, they
would be garbage in a cycle once the queue is deleted. Only the garbage collector frees such
objects. It stops the event loop for that, and it never looks at the queues that were there at the
start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.broker.counters.vhost_counters import VhostCounters
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from offsets.settlement import Settlement


class Namespace(Protocol):
    """The virtual host of a queue, as the queue sees it."""

    @property
    def name(self) -> str:
        """Name of the virtual host."""

    @property
    def counters(self) -> VhostCounters:
        """Counters of all its messages."""


class QueuePort(Protocol):
    """A queue, as its parts see it: they move offsets, and never deliver or write.

    Ranges are `[start, end)`.
    """

    @property
    def name(self) -> str:
        """Name of the queue."""

    @property
    def virtual_host(self) -> Namespace:
        """Virtual host of the queue."""

    @property
    def is_deleted(self) -> bool:
        """Whether nothing happens to the queue any more."""

    @property
    def ready(self) -> ReadyOrder:
        """Messages that may be delivered, and their order."""

    @property
    def settlement(self) -> Settlement:
        """Messages that are done for good."""

    def settle(self, start: int, end: int) -> None:
        """Mark messages as done for good that are neither ready nor unacked any more."""

    def drop(self, start: int, end: int, reason: str) -> None:
        """Dead-letter or settle messages that are neither ready nor unacked any more."""

    def wake(self) -> None:
        """Take a turn: there is something to do."""
