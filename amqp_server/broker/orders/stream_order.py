"""The order of a stream: nothing is ready in the queue itself, only in its subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.orders.ready_ranges import ReadyRange


class StreamOrder:
    """An order without ready messages; see `ReadyOrder` for the contract of the methods.

    Args:
        end: End of the log.
    """

    def __init__(self, end: int) -> None:
        self.end = end

    def __len__(self) -> int:
        """Return 0."""
        return 0

    @property
    def delivered_end(self) -> int:
        """0: the queue itself delivers nothing."""
        return 0

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return nothing."""
        return []

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return nothing."""
        del start, end
        return []

    def extend(self, end: int) -> None:
        """Remember the end only."""
        self.end = end

    def peek(self) -> ReadyRange | None:
        """Return None."""
        return None

    def take(self, count: int) -> ReadyRange:
        """Fail: `peek` never offers anything to take."""
        raise AssertionError(f"took {count} messages of a stream")

    def requeue(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Ignore the range: every subscription reads recovered messages from the log."""

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Ignore the ranges: the queue itself delivers nothing."""

    def take_all(self) -> list[ReadyRange]:
        """Return nothing."""
        return []

    def free_some(self) -> bool:
        """Return False: a stream's order has no ranges."""
        return False

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Return nothing: only retention removes messages from a stream."""
        del start, end
        return []
