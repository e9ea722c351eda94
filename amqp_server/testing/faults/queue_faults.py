"""Faults of one queue. Everything here runs on the event loop that owns the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.consuming.consumer_rotation import ConsumerRotation
from amqp_server.broker.merged_ranges import merged
from amqp_server.broker.queue_settings import QueueType
from amqp_server.broker.rules.message_attributes import MessageAttributes
from amqp_server.broker.rules.queue_rules import QueueRules
from amqp_server.testing.errors import FaultError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.turn import Turn
    from amqp_server.testing.faults.faulty_connection import FaultyConnection


def pause(queue: Queue, _turn: Turn) -> Callable[[], None]:
    """Deliver nothing to consumers; return what ends that.

    Raises:
        FaultError: The queue is a stream.
    """
    _refuse_stream(queue, "pause the deliveries")
    paused = queue.consumers
    queue.consumers = PausedConsumers(paused)

    def resume() -> None:
        # Pauses of one queue may end in any order.
        current = queue.consumers
        if isinstance(current, PausedConsumers):
            queue.consumers = current.paused
        queue.wake()

    return resume


class PausedConsumers(ConsumerRotation):
    """Consumers of a queue that get nothing.

    Args:
        paused: The same consumers; used again afterwards.

    Attributes:
        paused: The same consumers.
    """

    def __init__(self, paused: ConsumerRotation) -> None:
        super().__init__()
        self.paused = paused

    def __len__(self) -> int:
        """Return the number of consumers."""
        return len(self.paused)

    def __iter__(self) -> Iterator[Consumer]:
        """Iterate over a copy, oldest first."""
        return iter(self.paused)

    @property
    def first(self) -> Consumer:
        """The oldest consumer; there must be one."""
        return self.paused.first

    @property
    def has_exclusive(self) -> bool:
        """Whether one of the consumers is exclusive."""
        return self.paused.has_exclusive

    def add(self, consumer: Consumer) -> None:
        """Add a new consumer."""
        self.paused.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer."""
        self.paused.remove(consumer)

    def serve(self, consumer: Consumer) -> None:
        """Move a consumer that was just served to the end of its level."""
        self.paused.serve(consumer)


def refuse_publishes(queue: Queue, turn: Turn) -> Callable[[], None]:
    """Refuse publishes as a full queue with `x-overflow=reject-publish`; return what ends that."""
    queue.rules = _NoRoom(queue, turn)
    queue.refuses_when_full = True

    def accept() -> None:
        # Refusals of one queue may end in any order. A deleted queue has no rules.
        if isinstance(queue.rules, _NoRoom):
            queue.refuses_when_full = queue.rules.refused
            queue.rules = queue.rules.replaced
        queue.wake()

    return accept


class _NoRoom(QueueRules):
    """Rules of a queue that has no room.

    Args:
        queue: The queue.
        turn: Turn that runs its timers.

    Attributes:
        replaced: Rules that the queue had before.
        refused: Whether it refused messages when it was full.
    """

    def __init__(self, queue: Queue, turn: Turn) -> None:
        self.replaced = queue.rules
        self.refused = queue.refuses_when_full
        if queue.rules is not None:
            attributes = queue.rules.attributes
        else:
            attributes = MessageAttributes(queue.settings, queue.store.end_offset)
        super().__init__(queue, attributes, None, turn)

    def has_room_for(self, count: int, body_octets: int) -> bool:
        """Return False."""
        return False


def hold_first(queue: Queue, count: int) -> Callable[[], None]:
    """Take the first ready messages away as a consumer does; return what requeues them.

    Raises:
        FaultError: The queue is a stream, or has fewer ready messages.
    """
    _refuse_stream(queue, "hold messages")
    if len(queue.ready) < count:
        raise FaultError(
            f"cannot hold {count} messages of queue '{queue.name}': {len(queue.ready)} are ready; "
            "publish first, and let no consumer take them"
        )
    ranges: list[tuple[int, int]] = []
    left = count
    while left and (first := queue.ready.peek()) is not None:
        taken = queue.ready.take(min(left, len(first)))
        ranges.append((taken.start, taken.end))
        left -= taken.end - taken.start

    def requeue() -> None:
        if not queue.is_deleted:
            queue.requeue_all(merged(ranges))

    return requeue


def redeliver(queue: Queue, connections: Collection[FaultyConnection]) -> int:
    """Requeue what consumers have unacked; return how many messages that are."""
    ranges = [each for connection in connections for each in connection.take_back(queue)]
    if ranges:
        queue.requeue_all(merged(ranges))
    return sum(end - start for start, end in ranges)


def _refuse_stream(queue: Queue, what: str) -> None:
    if queue.settings.type is QueueType.STREAM:
        raise FaultError(f"cannot {what} of queue '{queue.name}': it is a stream")
