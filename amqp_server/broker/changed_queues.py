"""The queues that have changed since a reader of the change feed polled last."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator

GONE_MAX: Final = 20_000
"""Deleted queues that are remembered; a reader that missed more of them reads all queues again."""


class ObservedQueue(Protocol):
    """A queue, as the list of changes sees it; see `amqp_server.broker.queue.Queue`."""

    is_marked_changed: bool
    has_new_attributes: bool
    changed_in: int
    attributes_in: int
    number: int
    is_deleted: bool


class QueuePoll(Protocol):
    """One poll of the change feed, for one reader; see `amqp_server.admin.change_feed.poll`."""

    @property
    def since(self) -> int:
        """Generation of the poll whose result the reader knows; 0: none."""

    @property
    def found_in(self) -> int:
        """Generation of a change that is found now."""


class ChangedQueues:
    """Changed queues, in the order of their last change. The event loop owns it.

    A queue records its first change after each poll; the next ones cost it the test of a flag. So
    idle queues cost nothing, however many there are.

    Attributes:
        generation: Number of the latest poll.
        lost_until: Deleted queues of this generation and of earlier ones may be forgotten.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.lost_until = 0
        self._changed: dict[ObservedQueue, None] = {}
        # Those that a poll takes from `_changed`, in steps; polls at the same time share the work.
        self._taken: dict[ObservedQueue, None] = {}
        # In the order of the generation of their last change; dicts keep the order.
        self._ordered: dict[ObservedQueue, None] = {}
        self._gone: deque[tuple[int, int]] = deque()
        self._last_number = 0

    def record(self, queue: ObservedQueue) -> None:
        """Record that a queue has changed; it does not call again before the next poll."""
        if not queue.is_deleted:
            self._changed[queue] = None

    def end(self, queue: ObservedQueue) -> None:
        """Record that a queue is deleted; keep no reference to it."""
        self._changed.pop(queue, None)
        self._taken.pop(queue, None)
        self._ordered.pop(queue, None)
        if queue.number:
            self._gone.append((self.generation, queue.number))
            if len(self._gone) > GONE_MAX:
                self.lost_until, _ = self._gone.popleft()

    def take(self, poll: QueuePoll) -> Generator[ObservedQueue, None, None]:
        """Take the queues that have changed since the last poll, one in each step; return each.

        What changes after its step comes with the next poll.
        """
        self._taken.update(self._changed)
        self._changed = {}
        while self._taken:
            queue, _ = self._taken.popitem()
            queue.is_marked_changed = False
            queue.changed_in = poll.found_in
            if queue.has_new_attributes:
                queue.has_new_attributes = False
                queue.attributes_in = queue.changed_in
            if not queue.number:
                self._last_number += 1
                queue.number = self._last_number
            self._ordered.pop(queue, None)
            self._ordered[queue] = None
            yield queue

    def changed_since(self, generation: int) -> Generator[ObservedQueue, None, None]:
        """Return the queues that were taken since a poll; one may be deleted when it comes.

        O(all queues that have ever changed), in one go, before the first comes.
        """
        for queue in reversed(list(self._ordered)):
            if queue.changed_in <= generation:
                break
            yield queue

    def gone_since(self, generation: int) -> list[int]:
        """Return the numbers of queues that were deleted since a poll."""
        gone: list[int] = []
        for ended_in, number in reversed(self._gone):
            if ended_in < generation:
                break
            gone.append(number)
        return gone
