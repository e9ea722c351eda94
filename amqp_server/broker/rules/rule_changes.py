"""Makes, changes and ends the rules of a queue whose settings are replaced while it works.

A limit in octets needs the sizes of all messages. A queue that had no such limit does not know
them. Those of a short queue are read at once, from memory. For others `size_measurement` finds them
in the background; until it has, the limit in octets is not applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.orders.byte_counted_order import ByteCountedOrder
from amqp_server.broker.queue_part import QueuePort
from amqp_server.broker.queue_settings import QueueSettings
from amqp_server.broker.rules.length_limit import LengthLimit
from amqp_server.broker.rules.message_attributes import MessageAttributes, body_bytes
from amqp_server.broker.rules.queue_rules import QueueRules

if TYPE_CHECKING:
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from amqp_server.broker.storing.message_store import MessageStore
    from amqp_server.broker.transfers.forwarder import Forwarder
    from amqp_server.broker.turn import Turn

MEASURED_AT_ONCE: Final = 1024
"""Most messages whose sizes are read at once, about 1 ms."""


class ChangedQueue(QueuePort, Protocol):
    """A queue whose settings are replaced.

    Attributes:
        settings: The new settings.
        ready: Order of its ready messages.
        rules: Its rules, or None.
        refuses_when_full: Whether a full queue refuses new messages.
        forwarder: Forwards dead letters; None without a dead-letter exchange.
    """

    settings: QueueSettings
    ready: ReadyOrder
    rules: QueueRules | None
    refuses_when_full: bool
    forwarder: Forwarder | None

    @property
    def store(self) -> MessageStore:
        """Where the messages are."""


def change_rules(queue: ChangedQueue, turn: Turn) -> None:
    """Give a queue the rules that its settings ask for; messages keep their deadlines.

    Args:
        queue: Queue whose messages are all loaded; not a stream.
        turn: Turn that runs the rules.
    """
    settings = queue.settings
    rules = queue.rules
    is_ruled = settings.message_ttl_ms is not None or _has_limit(settings)
    queue.refuses_when_full = _has_limit(settings) and settings.overflow.refuses
    if rules is None:
        if not is_ruled:
            return
        attributes = MessageAttributes(QueueSettings(), queue.store.end_offset)
        rules = queue.rules = QueueRules(queue, attributes, None, turn)
    rules.attributes.change_ttl(settings.message_ttl_ms)
    _change_sizes(queue, rules)
    apply_limit(queue, rules)
    if not rules.is_needed:
        rules.stop()
        queue.rules = None


def apply_limit(queue: ChangedQueue, rules: QueueRules) -> None:
    """Let the rules of a queue apply its length limits, as far as the sizes are known."""
    if not _has_limit(queue.settings):
        rules.change_limit(None)
        return
    order = queue.ready
    is_counted = isinstance(order, ByteCountedOrder) and not rules.has_unknown_sizes
    byte_counted = order if is_counted and isinstance(order, ByteCountedOrder) else None
    rules.change_limit(LengthLimit(queue.settings, order, byte_counted))


def measure_in_memory(queue: ChangedQueue, start: int, end: int) -> int:
    """Note the sizes of messages from `start` on that are in memory; return where to go on.

    Args:
        queue: Queue with a limit in octets.
        start: First offset.
        end: Offset after the last one.
    """
    order = queue.ready
    assert isinstance(order, ByteCountedOrder), "the queue has no limit in octets"
    if start < queue.store.ring.window_start:
        return start
    messages = queue.store.read_memory(start, min(end, start + MEASURED_AT_ONCE))
    order.put_sizes(start, [body_bytes(message) for message in messages])
    return start + len(messages)


def _change_sizes(queue: ChangedQueue, rules: QueueRules) -> None:
    """Begin or end to count the octets of the ready messages."""
    attributes = rules.attributes
    order = queue.ready
    if queue.settings.max_length_bytes is None:
        if isinstance(order, ByteCountedOrder):
            queue.ready = order.order
        attributes.sizes = None
        rules.has_unknown_sizes = False
        return
    if attributes.sizes is not None:
        return
    start, end = queue.settlement.ack_floor, queue.store.end_offset
    queue.ready = ByteCountedOrder(order, attributes.begin_sizes(start, end))
    if start < end and end - start <= MEASURED_AT_ONCE:
        at = start
        while (after := measure_in_memory(queue, at, end)) > at and after < end:
            at = after
        start = after
    rules.has_unknown_sizes = start < end


def _has_limit(settings: QueueSettings) -> bool:
    return settings.max_length is not None or settings.max_length_bytes is not None
