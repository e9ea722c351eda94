"""The queues that have changed since the management server asked last."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator

GONE_MAX: Final = 20_000
"""Deleted queues that are remembered; a reader that missed more of them reads all queues again."""


class ObservedQueue(Protocol):
    """A queue, as the list of changes sees it; see `amqp_server.broker.queue.Queue`."""

    is_noted: bool
    has_new_facts: bool
    changed_in: int
    facts_in: int
    number: int
    is_deleted: bool


class QueueLook(Protocol):
    """One look at the queues, on behalf of one reader; see `amqp_server.admin.census.look`."""

    @property
    def since(self) -> int:
        """Generation of the look whose result the reader knows; 0: none."""

    @property
    def found_in(self) -> int:
        """Generation of a change that is found now."""


class ChangedQueues:
    """Changed queues, in the order of their last change. The event loop owns it.

    A queue notes its first change after each look; the next ones cost it the test of a flag. So
    idle queues cost nothing, however many there are.

    Attributes:
        generation: Number of the latest look.
        lost_until: Deleted queues of this generation and of earlier ones may be forgotten.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.lost_until = 0
        self._noted: dict[ObservedQueue, None] = {}
        # Those that a look takes from `_noted`, in steps; looks at the same time share the work.
        self._taken: dict[ObservedQueue, None] = {}
        # In the order of the generation of their last change; dicts keep the order.
        self._ordered: dict[ObservedQueue, None] = {}
        self._gone: deque[tuple[int, int]] = deque()
        self._last_number = 0

    def note(self, queue: ObservedQueue) -> None:
        """Note that a queue has changed; it does not call again before the next look."""
        if not queue.is_deleted:
            self._noted[queue] = None

    def end(self, queue: ObservedQueue) -> None:
        """Note that a queue is deleted; keep no reference to it."""
        self._noted.pop(queue, None)
        self._taken.pop(queue, None)
        self._ordered.pop(queue, None)
        if queue.number:
            self._gone.append((self.generation, queue.number))
            if len(self._gone) > GONE_MAX:
                self.lost_until, _ = self._gone.popleft()

    def take(self, look: QueueLook) -> Generator[ObservedQueue, None, None]:
        """Take the queues that have changed since the last look, one in each step; return each.

        What changes after its step comes with the next look.
        """
        self._taken.update(self._noted)
        self._noted = {}
        while self._taken:
            queue, _ = self._taken.popitem()
            queue.is_noted = False
            queue.changed_in = look.found_in
            if queue.has_new_facts:
                queue.has_new_facts = False
                queue.facts_in = queue.changed_in
            if not queue.number:
                self._last_number += 1
                queue.number = self._last_number
            self._ordered.pop(queue, None)
            self._ordered[queue] = None
            yield queue

    def changed_since(self, generation: int) -> Generator[ObservedQueue, None, None]:
        """Return the queues that were taken since a look; one may be deleted when it comes.

        O(all queues that have ever changed), in one go, before the first comes.
        """
        for queue in reversed(list(self._ordered)):
            if queue.changed_in <= generation:
                break
            yield queue

    def gone_since(self, generation: int) -> list[int]:
        """Return the numbers of queues that were deleted since a look."""
        gone: list[int] = []
        for ended_in, number in reversed(self._gone):
            if ended_in < generation:
                break
            gone.append(number)
        return gone
