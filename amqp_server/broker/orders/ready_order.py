"""Order of a queue's deliveries: the interface of every order.

A queue asks its order for the range that comes next and takes as much of it as it can deliver.
Requeued messages return to their own places. Orders know offsets only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.orders.ready_ranges import ReadyRange


class ReadyOrder(Protocol):
    """The ready messages of one queue.

    Attributes:
        end: End of the offsets that have ever been ready (exclusive).
    """

    end: int

    def __len__(self) -> int:
        """Return the number of ready messages. O(1)."""

    @property
    def delivered_end(self) -> int:
        """End of all offsets that have ever been delivered (exclusive)."""

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return ready ranges above `delivered_end` that were delivered before, in no order."""

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ready parts of `[start, end)`, ascending and disjoint; changes nothing."""

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""

    def peek(self) -> ReadyRange | None:
        """Return the range that comes next, or None if nothing is ready."""

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must have that many."""

    def requeue(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)`, taken before, to its place."""

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Return ascending, disjoint `ranges`, all taken before, to their places, as redelivered.

        O(ranges, times the logarithm of those that are ready).
        """

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready (a purge)."""

    def free_some(self) -> bool:
        """Free some of the ranges, because the queue is deleted; return whether more are left.

        The order is not used any more. To free hundreds of thousands at once would take long.
        """

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return the ready parts of `[start, end)`, in ascending order."""
