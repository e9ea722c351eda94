"""Start-up: restores consumer groups of streams from the last checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from appendlog.layout.format import OFFSET_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from uuid import UUID

    from amqp_server.broker.queue import Queue
    from offsets import GroupCheckpoint
    from offsets.group_checkpoint import GroupState


class RecoveredGroups:
    """The states of all consumer groups that a start has read.

    Args:
        checkpoints: Group states by incarnation of the stream and name of the group.
        was_clean: Whether the server stopped cleanly. If not, any message may have been delivered
            before.

    Attributes:
        was_clean: As the argument.
    """

    def __init__(
        self, checkpoints: Mapping[tuple[UUID, str], GroupCheckpoint], *, was_clean: bool
    ) -> None:
        self.was_clean = was_clean
        self._by_queue: dict[UUID, list[GroupCheckpoint]] = {}
        for checkpoint in checkpoints.values():
            self._by_queue.setdefault(checkpoint.incarnation, []).append(checkpoint)

    @property
    def incarnations(self) -> Collection[UUID]:
        """Incarnations of streams that have groups, including streams that do not exist."""
        return self._by_queue.keys()

    def __iter__(self) -> Iterator[GroupCheckpoint]:
        """Iterate over the states of all groups."""
        for states in self._by_queue.values():
            yield from states

    def ahead_of(self, incarnation: UUID, log_end: int) -> list[tuple[str, int]]:
        """Return the groups that have settled offsets which their log has lost, by name.

        Args:
            incarnation: Incarnation of the stream.
            log_end: End of the log's files, exclusive.

        Returns:
            Name of each group, and the end of what it has settled, exclusive.
        """
        states = self._by_queue.get(incarnation, ())
        ahead = [(each.name, each.settled_end) for each in states if each.settled_end > log_end]
        return sorted(ahead)

    def restore(self, queues: Iterable[Queue]) -> tuple[Queue, ...]:
        """Restore the groups of those queues that are streams; return all queues."""
        restored = tuple(queues)
        for queue in restored:
            if queue.groups is not None:
                for checkpoint in self._by_queue.get(queue.incarnation, ()):
                    queue.groups.restore(
                        queue, checkpoint, queue.opened_end, was_clean=self.was_clean
                    )
        return restored

    def leads(self, queue: Queue) -> bool:
        """Return whether a group has settled offsets above the end of its log.

        Recovery clips such settlement to the log's end. The checkpoint on the disk must be replaced
        before the log grows again: after a crash it would hide new messages from the group.
        """
        end = queue.opened_end
        return any(
            _end(checkpoint) > end for checkpoint in self._by_queue.get(queue.incarnation, ())
        )

    def of_missing(self, known: Collection[UUID]) -> list[GroupState]:
        """Return the states to write for groups whose streams could not be recovered.

        Needed only after a crash: the next start would not know that this one followed a crash.
        """
        return [
            replace(checkpoint, delivered_watermark=OFFSET_MAX)
            for incarnation in self._by_queue.keys() - known
            for checkpoint in self._by_queue[incarnation]
        ]


def changed_groups(queues: Iterable[Queue]) -> list[GroupState]:
    """Return the states of groups that differ from the checkpoint."""
    return [
        group.snapshot()
        for queue in queues
        if queue.groups is not None
        for group in queue.groups
        if group.is_dirty
    ]


def _end(checkpoint: GroupCheckpoint) -> int:
    ends = [end for _, end in checkpoint.acked_ranges]
    ends += [end for _, end, _ in checkpoint.redeliveries]
    return max([checkpoint.start or 0, *ends])
