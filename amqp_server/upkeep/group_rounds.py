"""The consumer groups of one checkpoint round."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from amqp_server.base.time_slice import TimeSlice
    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.groups import Groups, GroupsRound
    from offsets.group_checkpoint import GroupState


class GroupRounds:
    """Collects the groups of all streams that a round writes.

    Attributes:
        states: States of changed groups, each taken at its own moment.
        removed: Incarnation and name of groups that are gone.
    """

    def __init__(self) -> None:
        self.states: list[GroupState] = []
        self.removed: list[tuple[UUID, str]] = []
        self._taken: list[tuple[Queue, Groups, GroupsRound]] = []

    def __len__(self) -> int:
        """Return the number of groups to write or remove."""
        return len(self.states) + len(self.removed)

    async def take(self, queue: Queue, time_slice: TimeSlice, *, every: bool) -> None:
        """Collect the groups of one queue, if it is a stream.

        Args:
            queue: Queue to look at.
            time_slice: Time slice of the round on the event loop.
            every: Whether to collect unchanged groups too.
        """
        if queue.groups is None:
            return
        taken = queue.groups.take_dirty(every=every)
        self._taken.append((queue, queue.groups, taken))
        if taken.groups:
            # The checkpoint will name the queue's groups: they must be removed with the queue, even
            # if it is deleted during this write.
            queue.is_checkpointed = True
        self.removed += [(queue.incarnation, name) for name in taken.removed]
        for group in taken.groups:
            if queue.groups.has(group):
                self.states.append(group.snapshot())
            await time_slice.yield_if_due()

    def carry_over(self) -> None:
        """Return the collected groups to the next round: this one could not be written."""
        for queue, groups, taken in self._taken:
            groups.carry_over(queue, taken)
