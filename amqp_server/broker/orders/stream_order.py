"""The order of a stream: nothing is ready in the queue itself, its subscriptions have their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.orders.ready_ranges import ReadyRange


class StreamOrder:
    """No ready messages at all; see `ReadyOrder` for what the methods promise.

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
        """Nothing is ever delivered by the queue itself."""
        return 0

    def marked(self) -> list[tuple[int, int]]:
        """Return nothing."""
        return []

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return nothing."""
        del start, end
        return []

    def extend(self, end: int) -> None:
        """Take note of the end only."""
        self.end = end

    def peek(self) -> ReadyRange | None:
        """Return None."""
        return None

    def take(self, count: int) -> ReadyRange:
        """Never called: `peek` has nothing."""
        raise AssertionError(f"took {count} messages of a stream")

    def requeue(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Keep nothing: what a start found in the log is there for every subscription."""

    def take_all(self) -> list[ReadyRange]:
        """Return nothing."""
        return []

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Return nothing: what leaves a stream leaves by retention."""
        del start, end
        return []
