"""The queues in which something has moved since the last round of checkpoints.

A round looks at these only: ten thousand queues in which nothing happens cost it nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.broker.queue import Queue


class QueuesToCheckpoint:
    """Queues that settled, wrote or took up something, in the order in which they did.

    The event loop owns it. Memory: a reference to each of them, also to deleted ones, until the
    next round.
    """

    def __init__(self) -> None:
        self._queues: dict[Queue, None] = {}

    def __iter__(self) -> Iterator[Queue]:
        """Iterate over them; none may be added meanwhile."""
        return iter(self._queues)

    def add(self, queue: Queue) -> None:
        """Let the next round look at a queue; a second call before it changes nothing."""
        self._queues[queue] = None

    def update(self, queues: Iterable[Queue]) -> None:
        """Let the next round look at all of these."""
        self._queues.update(dict.fromkeys(queues))

    def discard(self, queue: Queue) -> None:
        """Forget a queue that is deleted."""
        self._queues.pop(queue, None)

    def take(self) -> list[Queue]:
        """Remove and return all of them."""
        taken, self._queues = list(self._queues), {}
        return taken
