"""A stream: a queue whose consumers read the log, each at its own place, and take nothing from it.

It has the store of any queue. Its ready order is always empty (`orders.stream_order`), and its
consumers are those of its subscriptions. Only retention removes messages. Each message is
persistent, so that a restart does not treat it as transient.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from amqp_server.broker.message_states import MessageState, StateRun
from amqp_server.broker.queue import Queue
from amqp_server.broker.subscriptions.groups import Groups
from amqp_server.protocol.errors import NotImplementedAmqp
from appendlog.layout.message import HAS_EXPIRATION, PERSISTENT, as_persistent
from appendlog.reclaim.stream_retention import stream_start

if TYPE_CHECKING:
    from amqp_server.broker.counters.owners import CountedExchange

logger = logging.getLogger("amqp_server.broker.stream")


class Stream(Queue):
    """One stream of one virtual host. The event loop owns it."""

    makes_persistent = True
    _groups: Groups | None = None

    @property
    def groups(self) -> Groups:
        """Consumer groups of the stream."""
        if self._groups is None:
            self._groups = Groups(self, self._turn)
        return self._groups

    @property
    def consumer_count(self) -> int:
        """Consumers, as `queue.declare-ok` counts them."""
        return self.subscriptions.consumer_count

    @property
    def ready_count(self) -> int:
        """Messages that readers may see."""
        floor, end = self.settlement.ack_floor, self.visible_end
        if not self.settlement.settled_above_floor:
            return max(end - floor, 0)
        there = self.settlement.unsettled_ranges(floor, max(end, floor))
        return sum(high - low for low, high in there)

    @property
    def unacked_count(self) -> int:
        """Deliveries that consumers have not acknowledged; one message may count several times."""
        return sum(consumer.unacked for consumer in self.subscriptions.consumers())

    @property
    def first_offset(self) -> int:
        """Offset of the oldest message that can be read, or of the first to come.

        Settled messages are gone, though their files may still exist.
        """
        return max(self.store.log.log_start_offset, self.settlement.ack_floor)

    def publish(
        self, messages: list[bytes], flags: int, exchange: CountedExchange | None = None
    ) -> int:
        """Append messages in order, all persistent; return the offset after the last one.

        Args:
            messages: At least one; other queues may share the list, so the stream never changes it.
            flags: Flags octet that all the messages have. No message expires.
            exchange: Exchange that a client has published them to; None: no client has.
        """
        if not flags & PERSISTENT:
            messages = list(map(as_persistent, messages))
        return super().publish(messages, (flags | PERSISTENT) & ~HAS_EXPIRATION, exchange)

    def awaits(self, end_offset: int, flags: int) -> bool:
        """Return whether messages below `end_offset` are not safe yet, whatever their flags."""
        return super().awaits(end_offset, flags | PERSISTENT)

    def withdraw(self, start: int, end: int) -> None:
        """Settle refused messages of `[start, end)` that no consumer can have seen.

        Visible messages stay, or consumers of the stream would see different messages.
        """
        if self.is_deleted:
            return
        start = max(start, self.visible_end)
        for low, high in self.settlement.unsettled_ranges(start, max(start, end)):
            self.settle(low, high)

    def message_states(self, start: int, end: int) -> list[StateRun]:
        """Return the states of `[start, end)`: all messages are ready."""
        return [StateRun(start, end, MessageState.READY)] if start < end else []

    def readable_range(self, start: int, end: int) -> tuple[int, int]:
        """Return the first part of `[start, end)` that readers get; it is empty if there is none.

        Settled messages above the floor were refused (full disk) or lost: readers skip them.
        """
        if not self.settlement.settled_above_floor:
            return start, end
        there = self.settlement.unsettled_ranges(start, end)
        return there[0] if there else (end, end)

    def shorten(self, now_ns: int) -> None:
        """Settle the messages at the start that the bounds of the stream no longer keep.

        Retention removes the segments once a checkpoint holds this (I1). Subscriptions continue at
        the new start. Groups count the messages that they lost.

        Args:
            now_ns: Current time in nanoseconds since 1970 UTC.
        """
        start = stream_start(self.store.log.segments, self.storage_settings.stream, now_ns)
        floor = self.settlement.ack_floor
        if start <= floor or self.is_draining:
            return
        for low, high in self.settlement.unsettled_ranges(floor, start):
            self.settle(low, high)
        self.subscriptions.begin_at(start)
        self.groups.drop_below(start)
        logger.info(
            "stream shortened queue=%s vhost=%s from=%d to=%d",
            self.name,
            self.virtual_host.name,
            floor,
            start,
        )

    def stop(self) -> None:
        """Stop all deliveries, because the stream is deleted."""
        super().stop()
        if self._groups is not None:
            self._groups.stop()


def refuse_stream(queue: Queue, operation: str) -> None:
    """Refuse an operation that streams do not support, with RabbitMQ's text.

    Args:
        queue: Queue that the method names.
        operation: Name of the method.

    Raises:
        NotImplementedAmqp: The queue is a stream.
    """
    if isinstance(queue, Stream):
        raise NotImplementedAmqp(
            f"{operation} not supported by stream queues queue '{queue.name}' in vhost "
            f"'{queue.virtual_host.name}'"
        )
