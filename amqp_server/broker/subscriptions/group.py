"""A consumer group of a stream: a subscription with a name, which lives on without members.

What its members acked is the group's, in any order; what they give back, or leave behind when
they are gone, goes to the others. The place is durable: it goes into checkpoints, as the
settlement of a queue does. Groups know nothing of one another, nor of plain consumers.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_server.broker.subscriptions.group_lag import lag_bytes, timestamp_ns_at
from amqp_server.broker.subscriptions.group_subscription import GroupSubscription
from amqp_server.broker.subscriptions.start_position import first_offset, offset_range
from offsets import GroupInUseError, GroupSnapshot
from offsets.delivery_counters import DeliveryCounters

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable, Iterable

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.turn import Turn
    from offsets import GroupOffsets

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GroupStats:
    """What one group has done and has to do, at one moment.

    Attributes:
        members: Consumers that it has.
        committed: All below it is done, and what it names is not; None: nothing was ever acked.
        start: Where it would deliver from after a restart; None: it has no place yet.
        lag: Messages from there to the end of what is on the disk.
        lag_bytes: Their room on the disk, about: exact to whole segments, and within one to its
            average message.
        ready: Messages that wait to be delivered.
        unacked: Messages that members have.
        settled_above: Messages acked ahead of the first that is not.
        oldest_unacked_seconds: Since the first delivery of the oldest message that a member has;
            None: none has one.
        delivered: Messages given to members since the server started, each time anew.
        acked: Messages that members acknowledged since the server started.
        redelivered: Messages delivered again, ever.
        rejected: Messages that members did not want, since the server started.
        dropped_total: Messages that retention took before the group was done with them.
        dropped_since_last_poll: Those that no delivery has told of.
        updated_at_ns: When it was last started, acked, committed or moved; 0: never.
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
        turn: Where it asks for its turns.
        offsets: Its place.
        on_dirty: Called when a checkpoint should say something new of it.
        delivered_end: As its checkpoint has it; no offset at or above it was delivered to it.
        returns: Runs (start, end, count) of what came back, as its checkpoint has them.

    Attributes:
        queue: See above.
        offsets: See above.
        subscription: What its members are served from; another one after a seek.
        rejected_count: Messages that members did not want.
        counters: Counts what its members are given, as a part of what the stream's readers are.
        is_dirty: Whether the next checkpoint has to name it.
        placing: Done when the first place, or another one, that is being looked for is found.
    """

    def __init__(
        self,
        queue: Queue,
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
        self.counters = DeliveryCounters(queue.counters)
        self._turn = turn
        self._on_dirty = on_dirty
        self.subscription = GroupSubscription(self, turn, delivered_end, returns)

    @property
    def name(self) -> str:
        """Its name, unique in the stream."""
        return self.offsets.name

    @property
    def where(self) -> str:
        """What its log is called, in words for people."""
        return f"queue '{self.queue.name}' in vhost '{self.queue.virtual_host.name}'"

    @property
    def members(self) -> int:
        """How many consumers it has."""
        return len(self.subscription.consumers)

    def note_dirty(self) -> None:
        """Let the next checkpoint say what is different, if something is."""
        if self.offsets.changed and not self.is_dirty:
            self.is_dirty = True
            self._on_dirty(self)

    def place(self, offset: int) -> None:
        """Give it its first place, or another one; it has no members.

        What retention has taken from there on counts as dropped.

        Args:
            offset: Up to `queue.visible_end`, and perhaps before the log.
        """
        now_ns = time.time_ns()
        if self.offsets.start is None:
            self.offsets.start_at(offset, now_ns)
        else:
            self.offsets.seek(offset, 0, self.queue.visible_end, now_ns)
        self._set_out(offset)
        self.drop_below(first_offset(self.queue))

    def commit(self, offset: int) -> int:
        """Say that all below `offset` is done; see `GroupOffsets.commit`.

        It takes effect now and is durable behind the next checkpoint round.

        Returns:
            How many messages that settled anew.

        Raises:
            RegressingCommitError: It goes back.
            GroupOffsetOutOfRangeError: It is not in the log.
        """
        was_placed = self.offsets.start is not None
        newly = self.offsets.commit(offset, *offset_range(self.queue), time.time_ns())
        if was_placed:
            self.subscription.see()
            self.subscription.begin_at(offset)
        else:
            self._set_out(offset)
        self.note_dirty()
        return newly

    def seek(self, offset: int, *, force: bool) -> None:
        """Go to a place in the log, back or on; see `GroupOffsets.seek`.

        What members have from before is not theirs to answer any more: it gives them credit and
        changes nothing. It takes effect now and is durable behind the next checkpoint round.

        Args:
            offset: What is to be delivered next: the log start to `queue.visible_end`.
            force: Whether it may have members.

        Raises:
            GroupInUseError: It has members, and `force` is not given.
            GroupOffsetOutOfRangeError: The log does not have it.
        """
        self.check_unused(force=force)
        self.offsets.seek(offset, *offset_range(self.queue), time.time_ns())
        self._set_out(offset)

    def check_unused(self, *, force: bool = False) -> None:
        """Check that it has no members, or that they do not matter.

        Raises:
            GroupInUseError: They do.
        """
        if self.members and not force:
            raise GroupInUseError(self.name, self.where, self.members)

    def drop_below(self, log_start: int, *, is_logged: bool = True) -> int:
        """Go on to where the log begins now: retention does not wait for groups.

        Args:
            log_start: See above.
            is_logged: Whether the server's log is to tell of what is dropped.

        Returns:
            How many messages the group was not done with.
        """
        dropped = self.offsets.drop_below(log_start)
        if dropped and is_logged:
            logger.warning(
                "group passed by retention queue=%s vhost=%s group=%s dropped=%d log_start=%d",
                *(self.queue.name, self.queue.virtual_host.name, self.name, dropped, log_start),
            )
        self.subscription.begin_at(log_start)
        self.note_dirty()
        return dropped

    def lost(self, start: int, end: int) -> None:
        """Go on behind offsets that the log does not have, for retention or for damage."""
        self.drop_below(first_offset(self.queue))
        for taken in self.subscription.ready.take_range(start, end):
            logger.error(
                "records lost queue=%s vhost=%s group=%s from=%d to=%d",
                *(self.queue.name, self.queue.virtual_host.name, self.name),
                *(taken.start, taken.end),
            )
            self.offsets.settle(taken.start, taken.end, time.time_ns())
        self.note_dirty()

    def stop(self) -> None:
        """Deliver nothing any more: it is deleted."""
        self.subscription.stop()

    def snapshot(self) -> GroupSnapshot:
        """Return what a checkpoint may say of it now; I4: nothing that is not on the disk."""
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
        """Return what it has done and has to do. Looks at no file; O(segments + ranges)."""
        offsets, ready = self.offsets, self.subscription.ready
        log_start, end = offset_range(self.queue)
        start = max(offsets.settlement.ack_floor, log_start)
        self.subscription.see()
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
            delivered=self.counters.delivered,
            acked=self.counters.acked,
            redelivered=offsets.redelivered,
            rejected=self.rejected_count,
            dropped_total=offsets.dropped_total,
            dropped_since_last_poll=offsets.dropped_since_last_poll,
            updated_at_ns=offsets.updated_at_ns,
        )

    def read_lag_seconds(self) -> float:
        """Return how old the first message is that it is not done with; 0.0: it is with the end.

        Reads one record of the log: for a worker, not for the loop.

        Raises:
            LogFailedError: The log cannot be read.
        """
        log_start, end = offset_range(self.queue)
        start = max(self.offsets.settlement.ack_floor, log_start)
        if start >= end:
            return 0.0
        appended_ns = timestamp_ns_at(self.queue.store.log, start)
        return 0.0 if appended_ns is None else max(time.time_ns() - appended_ns, 0) / 1e9

    def _set_out(self, offset: int) -> None:
        """Serve the members from a place on, and nothing of what they had before."""
        before = self.subscription
        members = list(before.consumers)
        self.subscription = GroupSubscription(self, self._turn, offset)
        for member in members:
            before.remove_consumer(member)
            member.move(self.subscription)
            self.subscription.add_consumer(member)
        before.stop()
        self.note_dirty()

    def _oldest_unacked_seconds(self) -> float:
        settlement, subscription = self.offsets.settlement, self.subscription
        subscription.marks.forget_below(settlement.ack_floor)
        position = settlement.ack_floor
        # What came back is ready: the oldest that a member has lies before, between or behind.
        end = subscription.ready.next_offset
        for low, high in [*subscription.ready.within(position, end), (end, end)]:
            with_members = settlement.unsettled_ranges(position, max(position, low))
            if with_members:
                return subscription.marks.age_seconds(with_members[0][0])
            position = high
        return 0.0
