"""What one round of checkpoints says of consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from amqp_server.broker.queue import Queue
    from amqp_server.broker.subscriptions.groups import Groups, GroupsRound
    from amqp_server.time_slice import TimeSlice
    from offsets.group_checkpoint import GroupState


class GroupRounds:
    """The groups of all streams that a round looks at.

    Attributes:
        states: Of those that have changed; each of the moment at which it was looked at.
        removed: Incarnation and name of those that are gone.
    """

    def __init__(self) -> None:
        self.states: list[GroupState] = []
        self.removed: list[tuple[UUID, str]] = []
        self._taken: list[tuple[Groups, GroupsRound]] = []

    def __len__(self) -> int:
        """Return how many groups there is something to say of."""
        return len(self.states) + len(self.removed)

    async def take(self, queue: Queue, time_slice: TimeSlice, *, every: bool) -> None:
        """Look at the groups of one queue, if it is a stream.

        Args:
            queue: The queue.
            time_slice: The slice of the event loop that this work has begun.
            every: Also at those that are as they were.
        """
        if queue.groups is None:
            return
        taken = queue.groups.take_dirty(every=every)
        self._taken.append((queue.groups, taken))
        if taken.groups:
            # With the queue its groups are to be forgotten, also if it goes while this is written.
            queue.is_checkpointed = True
        self.removed += [(queue.incarnation, name) for name in taken.removed]
        for group in taken.groups:
            if queue.groups.has(group):
                self.states.append(group.snapshot())
            await time_slice.yield_if_due()

    def carry_over(self) -> None:
        """Let the next round say all this: it was not written."""
        for groups, taken in self._taken:
            groups.carry_over(taken)
