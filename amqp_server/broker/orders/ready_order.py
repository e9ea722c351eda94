"""Which message of a queue is delivered next: what every order offers.

A queue asks its order for the range that goes next and takes as much of it as it can deliver;
what is requeued is given back and finds its own place. Orders know offsets only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.broker.orders.ready_ranges import ReadyRange


class ReadyOrder(Protocol):
    """The ready messages of one queue.

    Attributes:
        end: All offsets below it were ready at some time.
    """

    end: int

    def __len__(self) -> int:
        """Return how many messages are ready. O(1)."""

    @property
    def delivered_end(self) -> int:
        """All offsets that were ever delivered are below this one."""

    def marked(self) -> list[tuple[int, int]]:
        """Return what is ready above `delivered_end` and was delivered before, in no order."""

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return what is ready of `[start, end)`, ascending and disjoint; nothing changes."""

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""

    def peek(self) -> ReadyRange | None:
        """Return the range that goes next, or None when nothing is ready."""

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must hold as many."""

    def requeue(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)`, taken before, to its place."""

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready (a purge)."""

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return what is ready in `[start, end)`, in ascending order."""
