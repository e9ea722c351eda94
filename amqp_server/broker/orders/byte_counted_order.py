"""An order that counts the body octets of its ready messages, for a limit in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.orders.offset_array import OffsetArray
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.orders.ready_ranges import ReadyRange


class ByteCountedOrder:
    """Wraps another order; see `ReadyOrder` for the contract of the methods.

    Args:
        order: Order that decides. Of what is ready in it already, the sizes are 0 until
            `put_sizes` is called.
        sizes: Body octets of each message, otherwise known before the message becomes ready.

    Attributes:
        ready_bytes: Body octets of all ready messages.
    """

    def __init__(self, order: ReadyOrder, sizes: OffsetArray) -> None:
        self.ready_bytes = 0
        self._order = order
        self._sizes = sizes

    @property
    def order(self) -> ReadyOrder:
        """The order that decides."""
        return self._order

    def put_sizes(self, start: int, sizes: Sequence[int]) -> None:
        """Note the sizes of messages from `start` on, which were 0 until now.

        Args:
            start: First offset.
            sizes: Body octets of each message.
        """
        self._sizes.put(start, sizes)
        for low, high in self._order.within(start, start + len(sizes)):
            self.ready_bytes += self._bytes(low, high)

    def __len__(self) -> int:
        """Return the number of ready messages."""
        return len(self._order)

    @property
    def end(self) -> int:
        """End of the offsets that have ever been ready (exclusive)."""
        return self._order.end

    @end.setter
    def end(self, end: int) -> None:
        self._order.end = end

    @property
    def delivered_end(self) -> int:
        """End of all offsets that have ever been delivered (exclusive)."""
        return self._order.delivered_end

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return ready ranges above `delivered_end` that were delivered before, in no order."""
        return self._order.redelivered_ranges()

    def within(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ready parts of `[start, end)`, ascending and disjoint; changes nothing."""
        return self._order.within(start, end)

    def extend(self, end: int) -> None:
        """Make the offsets up to `end` (exclusive) ready."""
        self.ready_bytes += self._bytes(self._order.end, end)
        self._order.extend(end)

    def peek(self) -> ReadyRange | None:
        """Return the range that comes next, or None if nothing is ready."""
        return self._order.peek()

    def take(self, count: int) -> ReadyRange:
        """Remove and return the first `count` offsets of `peek()`, which must have that many."""
        return self._taken([self._order.take(count)])[0]

    def requeue(self, start: int, end: int, *, redelivered: bool = True) -> None:
        """Return `[start, end)`, taken before, to its place."""
        self.ready_bytes += self._bytes(start, end)
        self._order.requeue(start, end, redelivered=redelivered)

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Return ascending ranges, all taken before, to their places, as redelivered."""
        for start, end in ranges:
            self.ready_bytes += self._bytes(start, end)
        self._order.requeue_all(ranges)

    def take_all(self) -> list[ReadyRange]:
        """Remove and return everything that is ready."""
        return self._taken(self._order.take_all())

    def free_some(self) -> bool:
        """Free some of the ranges; return whether more are left."""
        return self._order.free_some()

    def take_range(self, start: int, end: int) -> list[ReadyRange]:
        """Remove and return the ready parts of `[start, end)`, in ascending order."""
        return self._taken(self._order.take_range(start, end))

    def count_to_free(self, octets: int) -> int:
        """Return how many messages of `peek()` hold `octets` or more; at most all of them."""
        ready = self.peek()
        count = 0
        if ready is not None:
            for size in self._sizes.numbers(ready.start, ready.end):
                count += 1
                octets -= size
                if octets <= 0:
                    break
        return count

    def _taken(self, taken: list[ReadyRange]) -> list[ReadyRange]:
        for ready in taken:
            self.ready_bytes -= self._bytes(ready.start, ready.end)
        return taken

    def _bytes(self, start: int, end: int) -> int:
        return sum(self._sizes.numbers(start, end)) if start < end else 0
