"""The queues that have changed since the management server asked last."""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

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


class ChangedQueues:
    """Which queues have changed, in the order of their last change. The event loop owns it.

    A queue notes its first change after each `begin`; the next ones cost it the test of a flag. So
    idle queues cost nothing, however many there are.

    Attributes:
        generation: Number of the present period between two calls of `begin`; grows.
        lost_until: Deleted queues of this generation and of earlier ones may be forgotten.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.lost_until = 0
        self._noted: dict[ObservedQueue, None] = {}
        # In the order of the generation of their last change; dicts keep the order.
        self._ordered: dict[ObservedQueue, None] = {}
        self._gone: deque[tuple[int, int]] = deque()
        self._last_number = 0

    def note(self, queue: ObservedQueue) -> None:
        """Note that a queue has changed; it does not call again before the next `begin`."""
        if not queue.is_deleted:
            self._noted[queue] = None

    def end(self, queue: ObservedQueue) -> None:
        """Note that a queue is deleted; keep no reference to it."""
        self._noted.pop(queue, None)
        self._ordered.pop(queue, None)
        if queue.number:
            self._gone.append((self.generation, queue.number))
            if len(self._gone) > GONE_MAX:
                self.lost_until, _ = self._gone.popleft()

    def begin(self, generation: int) -> None:
        """Begin a new period: a queue that changes from now on has changed in it or later."""
        noted, self._noted = self._noted, {}
        self.generation = generation
        for queue in noted:
            queue.is_noted = False
            self._ordered.pop(queue, None)
            self._ordered[queue] = None
            queue.changed_in = generation
            if queue.has_new_facts:
                queue.has_new_facts = False
                queue.facts_in = generation
            if not queue.number:
                self._last_number += 1
                queue.number = self._last_number

    def since(self, generation: int) -> list[ObservedQueue]:
        """Return the queues that changed after a period began; O(their number)."""
        changed: list[ObservedQueue] = []
        for queue in reversed(self._ordered):
            if queue.changed_in <= generation:
                break
            changed.append(queue)
        return changed

    def gone_since(self, generation: int) -> list[int]:
        """Return the numbers of queues that were deleted since a period began."""
        gone: list[int] = []
        for ended_in, number in reversed(self._gone):
            if ended_in < generation:
                break
            gone.append(number)
        return gone
