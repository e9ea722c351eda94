"""A consumer group of a stream: a subscription with a name that exists without members too.

Members share one position. Messages that a member acks, in any order, are settled for the whole
group. Messages that a member requeues, or leaves unacked when it goes, go to other members. The
position is durable: checkpoints hold it, like the settlement of a queue. Groups are independent of
each other and of plain consumers.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.subscriptions.group_lag import lag_bytes
from amqp_server.broker.subscriptions.group_subscription import GroupSubscription
from amqp_server.broker.subscriptions.start_position import offset_range
from amqp_server.broker.subscriptions.subscription import SubscribedQueue
from offsets import GroupInUseError, GroupSnapshot

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterable

    from amqp_server.broker.turn import Turn
    from offsets import GroupOffsets

logger = logging.getLogger("amqp_server.broker.subscriptions.group")


class GroupedQueue(SubscribedQueue, Protocol):
    """A stream, as its groups see it."""

    def mark_for_checkpoint(self) -> None:
        """Include the queue in the next round of checkpoints."""


@dataclass(frozen=True, slots=True)
class GroupStats:
    """State and counters of one group at one moment.

    Attributes:
        members: Consumers of the group.
        committed: First offset that is not acked; None: nothing was ever acked.
        start: Offset at which delivery would start after a restart; None: no position yet.
        lag: Messages from there to the end of what is on the disk.
        lag_bytes: Their size on the disk: exact for whole segments, an estimate from the mean
            message size for parts of segments.
        ready: Messages that wait for delivery.
        unacked: Messages that members have.
        settled_above: Messages that are acked above the first unacked one.
        oldest_unacked_seconds: Time since the first delivery of the oldest unacked message; None
            if there is none.
        delivered: Deliveries to members since the server started, redeliveries included.
        acked: Messages that members acked since the server started.
        redelivered: Messages that were delivered again, since the group exists.
        rejected: Messages that members rejected since the server started.
        dropped_total: Messages that retention removed before they were settled.
        dropped_since_last_poll: Those of them that no delivery has reported yet.
        updated_at_ns: Time of the last start, ack, commit or move; 0: never.
    """

    members: int
    committed: int | None
    start: int | None
    lag: int
    lag_bytes: int
    ready: int
    unacked: int
    settled_above: int
    oldest_unacked_seconds: float | None
    delivered: int
    acked: int
    redelivered: int
    rejected: int
    dropped_total: int
    dropped_since_last_poll: int
    updated_at_ns: int


class Group:
    """One group of one stream. The event loop owns it.

    Args:
        queue: The stream.
        turn: Turn at whose end the group delivers.
        offsets: Position of the group.
        on_dirty: Called when the next checkpoint must include the group.
        delivered_end: From the checkpoint: end of all offsets ever delivered to the group.
        returns: From the checkpoint: requeued runs as (start, end, count).

    Attributes:
        queue: The stream.
        offsets: Position of the group.
        subscription: Source of the members; a seek replaces it.
        rejected_count: Messages that members rejected.
        delivered_count: Messages delivered to members, counted each time.
        acked_count: Messages that members acknowledged, or got without the need for it.
        is_dirty: Whether the next checkpoint must include the group.
        now_ns: Returns the time of day, in nanoseconds since 1970 UTC.
        placing: Done when the position that is being looked up is found; None otherwise.
    """

    def __init__(
        self,
        queue: GroupedQueue,
        turn: Turn,
        offsets: GroupOffsets,
        on_dirty: Callable[[Group], None],
        delivered_end: int = 0,
        returns: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        self.queue = queue
        self.offsets = offsets
        self.rejected_count = 0
        self.is_dirty = False
        self.placing: Future[None] | None = None
        self.delivered_count = self.acked_count = 0
        self.now_ns = turn.clock.time_ns
        self._turn = turn
        self._on_dirty = on_dirty
        self.subscription = GroupSubscription(self, turn, delivered_end, returns)

    @property
    def name(self) -> str:
        """Name of the group, unique in the stream."""
        return self.offsets.name

    @property
    def where(self) -> str:
        """Text that names the queue in error messages."""
        return f"queue '{self.queue.name}' in vhost '{self.queue.virtual_host.name}'"

    @property
    def members(self) -> int:
        """Number of consumers in the group."""
        return len(self.subscription.consumers)

    def mark_dirty(self) -> None:
        """Include the group in the next checkpoint if it has changed."""
        if self.offsets.changed and not self.is_dirty:
            self.is_dirty = True
            self._on_dirty(self)

    def place(self, offset: int) -> None:
        """Set the first position, or a new one, of a group without members.

        Messages from there on that retention has already removed count as dropped.

        Args:
            offset: New position, at most `queue.visible_end`; may be below the log's start.
        """
        now_ns = self.now_ns()
        if self.offsets.start is None:
            self.offsets.start_at(offset, now_ns)
        else:
            self.offsets.seek(offset, 0, self.queue.visible_end, now_ns)
        self._serve_from(offset)
        self.drop_below(self.queue.first_offset)

    def commit(self, offset: int) -> int:
        """Settle everything below `offset`; see `GroupOffsets.commit`.

        It takes effect now and is durable after the next round of checkpoints.

        Returns:
            How many messages it settled that were not settled before.

        Raises:
            RegressingCommitError: `offset` is below the committed one.
            GroupOffsetOutOfRangeError: `offset` is not in the log.
        """
        was_placed = self.offsets.start is not None
        newly = self.offsets.commit(offset, *offset_range(self.queue), self.now_ns())
        if was_placed:
            self.subscription.extend_to_visible()
            self.subscription.begin_at(offset)
        else:
            self._serve_from(offset)
        self.mark_dirty()
        return newly

    def seek(self, offset: int, *, force: bool) -> None:
        """Move the position to any offset of the log; see `GroupOffsets.seek`.

        Members still have earlier messages. Acking or rejecting these restores credit and changes
        nothing else. The seek takes effect now and is durable after the next round of checkpoints.

        Args:
            offset: Next offset to deliver: from the log's start to `queue.visible_end`.
            force: Whether the group may have members.

        Raises:
            GroupInUseError: The group has members, and `force` is false.
            GroupOffsetOutOfRangeError: The log does not have `offset`.
        """
        self.check_unused(force=force)
        self.offsets.seek(offset, *offset_range(self.queue), self.now_ns())
        self._serve_from(offset)

    def check_unused(self, *, force: bool = False) -> None:
        """Check that the group has no members, unless `force` allows them.

        Raises:
            GroupInUseError: The group has members.
        """
        if self.members and not force:
            raise GroupInUseError(self.name, self.where, self.members)

    def drop_below(self, log_start: int, *, is_logged: bool = True) -> int:
        """Move the position to the start of the log, if it is below: retention waits for no group.

        Args:
            log_start: First offset of the log.
            is_logged: Whether to log the dropped messages.

        Returns:
            How many unsettled messages the group lost.
        """
        dropped = self.offsets.drop_below(log_start)
        if dropped and is_logged:
            logger.warning(
                "group passed by retention queue=%s vhost=%s group=%s dropped=%d log_start=%d",
                self.queue.name,
                self.queue.virtual_host.name,
                self.name,
                dropped,
                log_start,
            )
        self.subscription.begin_at(log_start)
        self.mark_dirty()
        return dropped

    def lost(self, start: int, end: int) -> None:
        """Skip offsets that the log does not have, because of retention or damage."""
        self.drop_below(self.queue.first_offset)
        for taken in self.subscription.ready.take_range(start, end):
            logger.error(
                "records lost queue=%s vhost=%s group=%s from=%d to=%d",
                self.queue.name,
                self.queue.virtual_host.name,
                self.name,
                taken.start,
                taken.end,
            )
            self.offsets.settle(taken.start, taken.end, self.now_ns())
        self.mark_dirty()

    def stop(self) -> None:
        """Stop deliveries, because the group is deleted."""
        self.subscription.stop()

    def snapshot(self) -> GroupSnapshot:
        """Return the group's state for a checkpoint, up to the recovery point only (I4)."""
        end = self.queue.store.recovery_point
        subscription = self.subscription
        returns: list[tuple[int, int, int]] = []
        if subscription.counts is not None:
            floor = self.offsets.settlement.ack_floor
            returns = subscription.counts.runs(floor, end)
        return GroupSnapshot.of(
            self.offsets,
            self.queue.incarnation,
            end,
            subscription.ready.delivered_end,
            returns,
        )

    def stats(self) -> GroupStats:
        """Return the current state and counters. Reads no file; O(segments + ranges)."""
        offsets = self.offsets
        ready = self.subscription.ready
        log_start, end = offset_range(self.queue)
        start = max(offsets.settlement.ack_floor, log_start)
        self.subscription.extend_to_visible()
        unsettled = max(end - start - offsets.settlement.settled_above_floor, 0)
        unacked = max(unsettled - len(ready), 0)
        return GroupStats(
            members=self.members,
            committed=offsets.committed,
            start=offsets.start,
            lag=offsets.lag(end, log_start),
            lag_bytes=lag_bytes(self.queue.store.log.segments, start, end),
            ready=len(ready),
            unacked=unacked,
            settled_above=offsets.settlement.settled_above_floor,
            oldest_unacked_seconds=self._oldest_unacked_seconds() if unacked else None,
            delivered=self.delivered_count,
            acked=self.acked_count,
            redelivered=offsets.redelivered,
            rejected=self.rejected_count,
            dropped_total=offsets.dropped_total,
            dropped_since_last_poll=offsets.dropped_since_last_poll,
            updated_at_ns=offsets.updated_at_ns,
        )

    def _serve_from(self, offset: int) -> None:
        """Serve the members from `offset` on, in a new subscription."""
        before = self.subscription
        members = list(before.consumers)
        self.subscription = GroupSubscription(self, self._turn, offset)
        for member in members:
            before.remove_consumer(member)
            member.move(self.subscription)
            self.subscription.add_consumer(member)
        before.stop()
        self.mark_dirty()

    def _oldest_unacked_seconds(self) -> float:
        settlement = self.offsets.settlement
        subscription = self.subscription
        subscription.marks.forget_below(settlement.ack_floor)
        position = settlement.ack_floor
        # Requeued messages are ready; the oldest unacked one lies before, between or after them.
        end = subscription.ready.next_offset
        for low, high in [*subscription.ready.within(position, end), (end, end)]:
            with_members = settlement.unsettled_ranges(position, max(position, low))
            if with_members:
                return subscription.marks.age_seconds(with_members[0][0])
            position = high
        return 0.0
