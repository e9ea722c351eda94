"""Start-up: consumer groups come back with their streams, as the last checkpoint had them."""

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
    """What a start has read of all groups.

    Args:
        checkpoints: By incarnation of the stream, and name.
        was_clean: Whether the server stopped cleanly; if not, all that there is may have been
            delivered before.

    Attributes:
        was_clean: See above.
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
        """Streams that have groups, those too that are not there."""
        return self._by_queue.keys()

    def __iter__(self) -> Iterator[GroupCheckpoint]:
        """Iterate over what was read of every group."""
        for states in self._by_queue.values():
            yield from states

    def ahead_of(self, incarnation: UUID, log_end: int) -> list[tuple[str, int]]:
        """Return the groups that are done with what their log has lost, by name.

        Args:
            incarnation: Of the stream.
            log_end: Where the files of its log end, exclusive.

        Returns:
            The name of each, and the end of what it is done with.
        """
        states = self._by_queue.get(incarnation, ())
        ahead = [(each.name, each.settled_end) for each in states if each.settled_end > log_end]
        return sorted(ahead)

    def restore(self, queues: Iterable[Queue]) -> tuple[Queue, ...]:
        """Bring back the groups of those of the queues that are streams; return all of these."""
        restored = tuple(queues)
        for queue in restored:
            if queue.groups is not None:
                for checkpoint in self._by_queue.get(queue.incarnation, ()):
                    queue.groups.restore(checkpoint, queue.opened_end, was_clean=self.was_clean)
        return restored

    def leads(self, queue: Queue) -> bool:
        """Tell whether a group is done with what the log never had, or has lost.

        What was read of it is clipped. The checkpoint on the disk has to be replaced before the
        log grows again: it would hide new messages from the group after a crash.
        """
        end = queue.opened_end
        return any(
            _end(checkpoint) > end for checkpoint in self._by_queue.get(queue.incarnation, ())
        )

    def of_missing(self, known: Collection[UUID]) -> list[GroupState]:
        """Return what to say of groups whose streams could not be brought back, after a crash.

        Nobody will know at the next start that this one came after a crash.
        """
        return [
            replace(checkpoint, delivered_watermark=OFFSET_MAX)
            for incarnation in self._by_queue.keys() - known
            for checkpoint in self._by_queue[incarnation]
        ]


def changed_groups(queues: Iterable[Queue]) -> list[GroupState]:
    """Return what to say of groups that are not as the checkpoint has them."""
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
