"""Limits of a queue's ready messages: their number, and the octets of their bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amqp_server.broker.orders.byte_counted_order import ByteCountedOrder
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.queue_settings import QueueSettings


class LengthLimit:
    """The length limits of one queue; either may be missing.

    Args:
        settings: Settings with the limits.
        order: Order of the ready messages.
        byte_counted: The same order, if there is a limit in octets.
    """

    def __init__(
        self, settings: QueueSettings, order: ReadyOrder, byte_counted: ByteCountedOrder | None
    ) -> None:
        self._max_length = settings.max_length
        self._max_bytes = settings.max_length_bytes
        self._order = order
        self._byte_counted = byte_counted

    def excess(self) -> int:
        """Return how many messages of `order.peek()` exceed the limits; 0 if none does."""
        first = self._order.peek()
        if first is None:
            return 0
        if self._max_length is not None and len(self._order) > self._max_length:
            return min(len(self._order) - self._max_length, len(first))
        if self._byte_counted is not None and self._max_bytes is not None:
            octets = self._byte_counted.ready_bytes - self._max_bytes
            if octets > 0:
                return self._byte_counted.count_to_free(octets)
        return 0

    def has_room_for(self, count: int, body_octets: int) -> bool:
        """Return whether the limits allow `count` more ready messages with bodies of that size.

        Source: RabbitMQ 3.10, `rabbit_amqqueue_process:will_overflow`.
        """
        if self._max_length is not None and len(self._order) + count > self._max_length:
            return False
        if self._byte_counted is None or self._max_bytes is None:
            return True
        return self._byte_counted.ready_bytes + body_octets <= self._max_bytes
