"""Start-up: what a queue's log has unsettled becomes ready, with the flags that it had."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from offsets.settlement import Settlement


def requeue_recovered(order: ReadyOrder, start: int, end: int, delivered: Settlement) -> None:
    """Make recovered messages ready, those that were delivered before marked redelivered.

    Args:
        order: With a cursor at the end of the log.
        start: First of them; all to `end` are unsettled, and not ready.
        end: Exclusive.
        delivered: Has "settled" what was delivered before, as far as anybody knows.
    """
    position = start
    for low, high in delivered.unsettled_ranges(start, end):
        if position < low:
            order.requeue(position, low)
        order.requeue(low, high, redelivered=False)
        position = high
    if position < end:
        order.requeue(position, end)
