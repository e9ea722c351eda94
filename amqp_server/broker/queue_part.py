"""Interface of a queue for its parts, and their reference to it, which does not keep it alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from weakref import ref

if TYPE_CHECKING:
    from amqp_server.broker.counters.vhost_counters import VhostCounters
    from amqp_server.broker.orders.ready_order import ReadyOrder
    from offsets.settlement import Settlement


class Namespace(Protocol):
    """The virtual host of a queue, as the queue sees it."""

    @property
    def name(self) -> str:
        """Name of the virtual host."""

    @property
    def counters(self) -> VhostCounters:
        """Counters of all its messages."""


class QueuePort(Protocol):
    """A queue, as its parts see it: they move offsets, and never deliver or write.

    Ranges are `[start, end)`.
    """

    @property
    def name(self) -> str:
        """Name of the queue."""

    @property
    def virtual_host(self) -> Namespace:
        """Virtual host of the queue."""

    @property
    def is_deleted(self) -> bool:
        """Whether nothing happens to the queue any more."""

    @property
    def ready(self) -> ReadyOrder:
        """Messages that may be delivered, and their order."""

    @property
    def settlement(self) -> Settlement:
        """Messages that are done for good."""

    def settle(self, start: int, end: int) -> None:
        """Mark messages as done for good that are neither ready nor unacked any more."""

    def drop(self, start: int, end: int, reason: str) -> None:
        """Dead-letter or settle messages that are neither ready nor unacked any more."""

    def wake(self) -> None:
        """Take a turn: there is something to do."""


PortT_co = TypeVar("PortT_co", covariant=True)


class QueuePart(Generic[PortT_co]):
    """Base class of the parts of a queue that only the queue itself uses.

    A queue and a part that refer to each other would be garbage in a cycle once the queue is
    deleted. Only the garbage collector frees such objects. It stops the event loop for that, and it
    never looks at the queues that were there at the start.

    Args:
        queue: Queue that owns the part, and that alone calls it; `PortT_co` is what the part sees.
    """

    __slots__ = ("_queue_ref",)

    def __init__(self, queue: PortT_co) -> None:
        self._queue_ref = ref(queue)

    @property
    def _queue(self) -> PortT_co:
        queue = self._queue_ref()
        assert queue is not None, "only the queue itself uses its parts"
        return queue
