"""Where each log ended at least, as the checkpoints know it.

A checkpoint names the recovery point of a log, and offsets that are settled in it. All of that was
on the disk once (I4). A log that ends before it has lost something since, and its offsets must not
be given to other messages.
"""

from collections.abc import Iterable
from uuid import UUID

from offsets.group_checkpoint import GroupCheckpoint
from offsets.queue_checkpoint import QueueCheckpoint


def known_ends(states: Iterable[QueueCheckpoint | GroupCheckpoint]) -> dict[UUID, int]:
    """Return, for each incarnation, the offset below which its log was on the disk; exclusive.

    Args:
        states: What the checkpoints say of queues and of groups, in any order.
    """
    ends: dict[UUID, int] = {}
    for state in states:
        ends[state.incarnation] = max(ends.get(state.incarnation, 0), state.known_end)
    return ends
