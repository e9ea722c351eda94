"""A group's way through a log from one position; a seek replaces it by a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from amqp_server.broker.rules.delivery_counts import DeliveryCounts
from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.storing.stamped_run import StampedRun
from amqp_server.broker.subscriptions.delivery_marks import DeliveryMarks
from amqp_server.broker.subscriptions.subscription import Subscription
from amqp_server.broker.transfers.message_headers import as_run_with_header, with_header
from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.large_delivery import LargeMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.source import Delivered
    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.subscriptions.group import Group
    from amqp_server.broker.turn import Turn

DROPPED_HEADER = "x-dropped-since-last-poll"
"""Header with the number of messages that retention removed since the last such header."""


class GroupSubscription(Subscription):
    """Source of a group's members: their acks and rejects change the group's position.

    It is over when the group is moved or deleted. Acks and rejects then restore credit and change
    nothing else.

    Args:
        group: Group that it serves.
        turn: Turn at whose end it delivers.
        delivered_end: End of all offsets ever delivered to the group. Unsettled messages below
            it are delivered first, marked redelivered.
        returns: Requeued runs as (start, end, count).
    """

    def __init__(
        self,
        group: Group,
        turn: Turn,
        delivered_end: int,
        returns: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        super().__init__(group.queue, turn, delivered_end)
        # The group owns this subscription: a reference back would make both garbage in a cycle.
        self._group_ref = ref(group)
        self.counts: DeliveryCounts | None = None
        self.marks = DeliveryMarks(delivered_end, turn.clock.monotonic)
        counted = [run for run in returns if run[2]]
        if counted:
            self.counts = DeliveryCounts(None, counted)
        settlement = group.offsets.settlement
        for start, end in settlement.unsettled_ranges(settlement.ack_floor, delivered_end):
            self.ready.requeue(start, end)
        self._take_settled()

    @property
    def group(self) -> Group:
        """The group; there is one as long as the stream exists."""
        group = self._group_ref()
        assert group is not None, "a member of a deleted group settles nothing"
        return group

    def extend_to_visible(self) -> None:
        """Make all messages ready that are visible now."""
        self.ready.extend(max(self.ready.end, self.queue.visible_end))

    def begin_at(self, start: int) -> None:
        """Skip to `start`, if the position is below: the group has settled what is below it."""
        if start > 0:
            super().begin_at(start)

    def as_delivered(self, start: int, messages: Messages, *, redelivered: bool) -> Delivered:
        """Return messages with their offsets, delivery counts, and the number of dropped ones."""
        group, offsets = self.group, self.group.offsets
        group.delivered_count += len(messages)
        delivered: Messages | LargeMessage = messages
        if redelivered:
            offsets.note_redelivered(len(messages))
            if self.counts is not None:
                delivered = self.counts.with_headers(start, messages)
        else:
            self.marks.record(start + len(messages))
        if offsets.dropped_since_last_poll:
            dropped = FieldValue(b"l", offsets.take_dropped())
            delivered = _with_first_header(delivered, DROPPED_HEADER, dropped)
            group.mark_dirty()
        return StampedRun(delivered, start)

    def settle(self, start: int, end: int) -> None:
        """Settle what a member acked; a commit or retention may have settled it before."""
        self.group.acked_count += end - start
        self._settle(start, end)

    def _settle(self, start: int, end: int) -> None:
        self.group.offsets.settle(start, end, self.group.now_ns())
        self.group.mark_dirty()

    def drop(self, start: int, end: int, reason: str) -> None:
        """Settle what a member rejected, for the whole group, and count it."""
        del reason
        self.group.rejected_count += end - start
        self._settle(start, end)

    def requeue_all(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Make what members returned ready again, in its place, marked redelivered."""
        settlement = self.group.offsets.settlement
        # A commit or retention may have settled a part of it by now.
        returned = [
            unsettled
            for start, end in ranges
            for unsettled in settlement.unsettled_ranges(start, end)
        ]
        if returned and self.counts is None:
            self.counts = DeliveryCounts(None)
        if self.counts is not None:
            self.counts.add(returned)
            self.counts.prune(settlement)
        self.ready.requeue_all(returned)
        self.group.mark_dirty()
        self.wake()

    def lost(self, start: int, end: int) -> None:
        """Skip offsets that the log does not have any more."""
        self.group.lost(start, end)

    def remove_consumer(self, consumer: Consumer) -> bool:
        """Remove a member; the group exists without any. Never deletes the queue."""
        self.consumers.remove(consumer)
        self.queue.mark_changed()
        if not len(self.consumers):
            self.queue.subscriptions.set_aside(self)
        else:
            self.wake()
        return False

    def _take_settled(self) -> None:
        """Remove settled messages above `delivered_end` from the order."""
        settled = self.group.offsets.settlement.ranges()
        if settled and settled[-1][1] > self.ready.end:
            self.ready.extend(settled[-1][1])
            for start, end in settled:
                self.ready.take_range(start, end)


def _with_first_header(
    messages: Messages | LargeMessage, name: str, value: FieldValue
) -> list[bytes] | LargeMessage:
    """Return messages of which the first has one more header; a large body is not copied."""
    if isinstance(messages, LargeMessage):
        return LargeMessage(with_header(messages.front, name, value), messages.body)
    first, *others = messages_of(messages)
    if not others:
        return as_run_with_header(first, name, value)
    return [with_header(first, name, value), *others]
