"""Publisher confirms of one channel: answered in order, many with one frame.

A publish waits for *barriers*: the durable queues that took it, each with the offset that
its recovery point must reach. Entries leave from the front only, so one
`basic.ack(multiple)` answers all that became safe since the last.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.queue import Queue


class ConfirmWaiter(Protocol):
    """Somebody who waits for messages to become safe in a queue, and hears when it has moved."""

    @property
    def awaits_confirms(self) -> bool:
        """Whether there is still something to wait for."""

    def release_confirms(self) -> None:
        """Look again at what has become safe."""

    def refuse_confirms(self, queue: Queue) -> None:
        """Give up what is not safe in a queue whose log has failed."""


class Barrier(NamedTuple):
    """A publish is safe in `queue` once its durable end is at `end_offset` or past it."""

    queue: Queue
    end_offset: int


@dataclass(slots=True)
class _Waiting:
    last_tag: int
    barriers: Sequence[Barrier]
    refused: bool


class Answer(NamedTuple):
    """All publishes up to `last_tag` not yet answered are confirmed, or refused."""

    last_tag: int
    refused: bool


class PublisherConfirms:
    """Counts publishes from 1 and says which may be answered."""

    def __init__(self) -> None:
        self.last_tag = 0
        self.answered_tag = 0
        self._waiting: deque[_Waiting] = deque()

    def __len__(self) -> int:
        """Return how many entries wait; a batch of publishes is one."""
        return len(self._waiting)

    def add(self, count: int, barriers: Sequence[Barrier], *, refused: bool = False) -> None:
        """Count `count` publishes; they wait for all `barriers`, or are refused."""
        self.last_tag += count
        if not barriers and self._waiting:
            last = self._waiting[-1]
            if not last.barriers and last.refused == refused:
                last.last_tag = self.last_tag
                return
        self._waiting.append(_Waiting(self.last_tag, barriers, refused))

    def refuse(self, queue: Queue) -> list[int]:
        """Refuse what waits for a queue whose log has failed, and take it out of that queue.

        At once, though it is answered later, when its other queues have it or refuse it as well:
        the log may work again by then, and pass the same offsets with other messages.

        Returns:
            The last tags of what is refused.
        """
        tags: list[int] = []
        first_tag = self.answered_tag + 1
        for entry in self._waiting:
            for barrier in entry.barriers:
                if barrier.queue is queue and queue.store.confirmed_end < barrier.end_offset:
                    count = entry.last_tag - first_tag + 1
                    queue.refused_ranges.add(barrier.end_offset - count, barrier.end_offset)
                    entry.refused = True
                    # What the others do with it has to be known as well: whoever tries again
                    # leaves out those that have it, and they may still fail.
                    entry.barriers = [each for each in entry.barriers if each.queue is not queue]
                    tags.append(entry.last_tag)
                    break
            first_tag = entry.last_tag + 1
        return tags

    def release(self) -> list[Answer]:
        """Remove and return what can be answered now, in order, merged where alike."""
        answers: list[Answer] = []
        while self._waiting:
            entry = self._waiting[0]
            refused = entry.refused
            if entry.barriers:
                missing = [
                    barrier.queue.store
                    for barrier in entry.barriers
                    if barrier.queue.store.confirmed_end < barrier.end_offset
                ]
                if missing and not any(store.is_failed for store in missing):
                    break
                refused = refused or bool(missing)
            self._waiting.popleft()
            self.answered_tag = entry.last_tag
            if answers and answers[-1].refused == refused:
                answers[-1] = Answer(entry.last_tag, refused)
            else:
                answers.append(Answer(entry.last_tag, refused))
        return answers
