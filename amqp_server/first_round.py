"""The first checkpoint round after a start: it says "not clean" before anything is delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_server.checkpointer import all_delivered, checkpoint_of
from amqp_server.group_recovery import changed_groups
from amqp_server.queue_recovery import leading_incarnations

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from amqp_server.broker.queue import Queue
    from amqp_server.group_recovery import RecoveredGroups
    from offsets import QueueCheckpoint
    from offsets.checkpoint import CheckpointStore
    from offsets.group_checkpoint import GroupState
    from offsets.queue_checkpoint import QueueState


@dataclass(frozen=True, slots=True)
class FirstRound:
    """What that round says.

    Attributes:
        states: Of queues whose state on the disk is not to be used again.
        gone: Incarnations to forget.
        supersedes: Whether the generation before must not be read any more either.
        groups: Of groups whose state on the disk is not to be used again.
    """

    states: list[QueueState]
    gone: list[UUID]
    supersedes: bool
    groups: list[GroupState]

    def write(self, checkpoints: CheckpointStore) -> None:
        """Put it on the disk; blocks.

        Raises:
            OffsetsError: The disk refused it.
        """
        checkpoints.write_round(self.states, self.gone, groups=self.groups)
        if self.supersedes:
            checkpoints.supersede()


def first_round(
    queues: Collection[Queue],
    checkpoints: Mapping[UUID, QueueCheckpoint],
    groups: RecoveredGroups,
    changed: Collection[UUID],
    *,
    knows_all: bool,
) -> FirstRound:
    """Return what the first round has to say.

    Args:
        queues: All that were brought back.
        checkpoints: What was read at this start.
        groups: The same of groups, which are brought back, and whether the stop was clean.
        changed: Incarnations whose logs this start has changed, or has found damaged.
        knows_all: Whether an incarnation without a queue is one that was deleted.
    """
    known = {queue.incarnation for queue in queues}
    # New messages of a log that has lost its end would be hidden by its checkpoint (I4).
    leading = leading_incarnations(checkpoints, queues)
    again = leading.union(changed)
    states: list[QueueState] = [
        checkpoint_of(each)
        for each in queues
        if each.incarnation in again or _has_moved(each, checkpoints.get(each.incarnation))
    ]
    if not groups.was_clean and not knows_all:
        # Nobody will know at the next start that this one came after a crash.
        states += [all_delivered(checkpoints[each]) for each in checkpoints.keys() - known]
    group_states = changed_groups(queues)
    if not groups.was_clean and not knows_all:
        group_states += groups.of_missing(known)
    gone = [*{*checkpoints, *groups.incarnations} - known] if knows_all else []
    supersedes = bool(leading) or any(groups.leads(queue) for queue in queues)
    return FirstRound(states, gone, supersedes, group_states)


def _has_moved(queue: Queue, checkpoint: QueueCheckpoint | None) -> bool:
    """Tell whether more, or less, of a queue is on the disk than the checkpoint says."""
    known = checkpoint.recovery_point if checkpoint is not None else 0
    return queue.store.recovery_point != known
