"""A part that belongs to one queue, and refers back to it without keeping it alive."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue


class QueuePart:
    """Base class of the parts of a queue that only the queue itself uses.

    A queue and a part that refer to each other would be garbage in a cycle once the queue is
    deleted. Only the garbage collector frees such objects. It stops the event loop for that, and it
    never looks at the queues that were there at the start.

    Args:
        queue: Queue that owns the part, and that alone calls it.
    """

    __slots__ = ("_queue_ref",)

    def __init__(self, queue: Queue) -> None:
        self._queue_ref = ref(queue)

    @property
    def _queue(self) -> Queue:
        queue = self._queue_ref()
        assert queue is not None, "only the queue itself uses its parts"
        return queue
