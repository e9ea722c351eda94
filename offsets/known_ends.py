"""Lowest possible end of each log, according to the checkpoints.

A checkpoint has the recovery point of a log, and its settled offsets. All of these were on the disk
once (I4). A log that ends before them has lost something since, and its lost offsets must not be
assigned to other messages.
"""

from collections.abc import Iterable
from uuid import UUID

from offsets.group_checkpoint import GroupCheckpoint
from offsets.queue_checkpoint import QueueCheckpoint


def known_ends(states: Iterable[QueueCheckpoint | GroupCheckpoint]) -> dict[UUID, int]:
    """Return, for each incarnation, the offset below which its log was on the disk; exclusive.

    Args:
        states: Checkpoints of queues and of groups, in any order.
    """
    ends: dict[UUID, int] = {}
    for state in states:
        ends[state.incarnation] = max(ends.get(state.incarnation, 0), state.known_end)
    return ends
