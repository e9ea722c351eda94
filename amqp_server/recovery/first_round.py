"""The first checkpoint round of a start: it records "not clean" before any delivery."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from amqp_server.recovery.group_recovery import changed_groups
from amqp_server.recovery.queue_recovery import leading_incarnations
from amqp_server.upkeep.checkpointer import all_delivered, checkpoint_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from amqp_server.broker.queue import Queue
    from amqp_server.recovery.group_recovery import RecoveredGroups
    from offsets import QueueCheckpoint
    from offsets.checkpoint import CheckpointStore
    from offsets.group_checkpoint import GroupState
    from offsets.queue_checkpoint import QueueState


@dataclass(frozen=True, slots=True)
class FirstRound:
    """Content of the first round.

    Attributes:
        states: Queues whose state on the disk must be replaced.
        gone: Incarnations to remove from the checkpoint.
        supersedes: Whether the generation before must not be read any more.
        groups: Groups whose state on the disk must be replaced.
    """

    states: list[QueueState]
    gone: list[UUID]
    supersedes: bool
    groups: list[GroupState]

    def write(self, checkpoints: CheckpointStore) -> None:
        """Write the round to the disk; blocks.

        Raises:
            OffsetsError: The disk refused the write.
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
    """Return the content of the first round.

    Args:
        queues: All recovered queues.
        checkpoints: Checkpoint of each queue that this start has read, by incarnation.
        groups: The same for consumer groups, which are restored already, and whether the stop was
            clean.
        changed: Incarnations whose logs this start has changed or found damaged.
        knows_all: Whether every incarnation without a queue belongs to a deleted queue.
    """
    known = {queue.incarnation for queue in queues}
    # If a log has lost its end, its old checkpoint would hide the messages appended next (I4).
    leading = leading_incarnations(checkpoints, queues)
    again = leading.union(changed)
    states: list[QueueState] = [
        checkpoint_of(each)
        for each in queues
        if each.incarnation in again or _has_moved(each, checkpoints.get(each.incarnation))
    ]
    if not groups.was_clean and not knows_all:
        # Without this the next start would not know that this one followed a crash.
        states += [all_delivered(checkpoints[each]) for each in checkpoints.keys() - known]
    group_states = changed_groups(queues)
    if not groups.was_clean and not knows_all:
        group_states += groups.of_missing(known)
    gone = [*{*checkpoints, *groups.incarnations} - known] if knows_all else []
    supersedes = bool(leading) or any(groups.leads(queue) for queue in queues)
    return FirstRound(states, gone, supersedes, group_states)


def _has_moved(queue: Queue, checkpoint: QueueCheckpoint | None) -> bool:
    """Return whether the disk has more or less of a queue than its checkpoint says."""
    known = checkpoint.recovery_point if checkpoint is not None else 0
    return queue.store.recovery_point != known
