"""The queues that have changed since the last round of checkpoints.

A round looks at these queues only, so ten thousand idle queues cost it nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.broker.queue import Queue


class QueuesToCheckpoint:
    """Queues that settled, wrote or appended messages, in the order of their first change.

    The event loop owns it. It keeps one reference for each queue until the next round.
    """

    def __init__(self) -> None:
        self._queues: dict[Queue, None] = {}

    def __iter__(self) -> Iterator[Queue]:
        """Iterate over the queues; the caller must not add any during the iteration."""
        return iter(self._queues)

    def add(self, queue: Queue) -> None:
        """Include a queue in the next round; adding it twice changes nothing."""
        self._queues[queue] = None

    def update(self, queues: Iterable[Queue]) -> None:
        """Include all of these queues in the next round."""
        self._queues.update(dict.fromkeys(queues))

    def discard(self, queue: Queue) -> None:
        """Forget a queue that is deleted."""
        self._queues.pop(queue, None)

    def take(self) -> list[Queue]:
        """Remove and return all queues."""
        taken, self._queues = list(self._queues), {}
        return taken
