"""Makes the unsettled messages of a recovered log ready, with their redelivered flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from offsets.settlement import Settlement


def requeue_recovered(order: ReadyOrder, start: int, end: int, delivered: Settlement) -> None:
    """Make recovered messages ready; those that were delivered before are marked redelivered.

    Args:
        order: Order whose end is the end of the log.
        start: First offset; all from here to `end` are unsettled and not ready.
        end: Offset after the last one.
        delivered: Contains as settled the offsets that may have been delivered before.
    """
    position = start
    for low, high in delivered.unsettled_ranges(start, end):
        if position < low:
            order.requeue(position, low)
        order.requeue(low, high, redelivered=False)
        position = high
    if position < end:
        order.requeue(position, end)
