"""Start-up: what a queue's log has unsettled becomes ready, with the flags that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsets.settlement import Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.orders.ready_order import ReadyOrder


def give_back_recovered(
    order: ReadyOrder,
    unsettled: Iterable[tuple[int, int]],
    delivered_watermark: int,
    came_back: Iterable[tuple[int, int]],
) -> None:
    """Make recovered messages ready, those that were delivered before marked redelivered.

    Args:
        order: With nothing ready, and a cursor at the end of the log.
        unsettled: Half-open ranges, ascending and disjoint.
        delivered_watermark: All below it may have been delivered.
        came_back: Ranges that were delivered, above it too: an order that is not by offset has
            no watermark that says anything. In any order, overlaps allowed.
    """
    delivered = Settlement(delivered_watermark, came_back)
    for start, end in unsettled:
        position = start
        for low, high in delivered.unsettled_ranges(start, end):
            if position < low:
                order.give_back(position, low)
            order.give_back(low, high, redelivered=False)
            position = high
        if position < end:
            order.give_back(position, end)
