"""Chooses a queue's ready order: by offset or priority, with a byte count if it needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.orders.byte_counted_order import ByteCountedOrder
from amqp_server.broker.orders.fifo_order import FifoOrder
from amqp_server.broker.orders.priority_order import PriorityOrder
from amqp_server.broker.orders.stream_order import StreamOrder
from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.rules.length_limit import LengthLimit

if TYPE_CHECKING:
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.queue_settings import QueueSettings
    from amqp_server.broker.rules.message_attributes import MessageAttributes


def queue_order(
    settings: QueueSettings, attributes: MessageAttributes, cursor: int
) -> tuple[ReadyOrder, LengthLimit | None]:
    """Return an empty order for these settings, and the length limit if there is one."""
    if settings.type is QueueType.STREAM:
        return StreamOrder(cursor), None
    order: ReadyOrder = FifoOrder(cursor)
    if settings.max_priority is not None and attributes.priorities is not None:
        order = PriorityOrder(attributes.priorities, settings.max_priority, cursor)
    byte_counted = None
    if attributes.sizes is not None:
        order = byte_counted = ByteCountedOrder(order, attributes.sizes)
    if settings.max_length is None and byte_counted is None:
        return order, None
    return order, LengthLimit(settings, order, byte_counted)
