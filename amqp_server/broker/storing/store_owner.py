"""Owner of a store, and the progress that the store hands to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from amqp_server.broker.storing.spill_delay import SpillDelayOwner

if TYPE_CHECKING:
    from amqp_server.broker.turn import TaskQueue


class StoreProgress(NamedTuple):
    """State of a store, as far as its queue acts on it.

    A queue compares it with the value before it, so what happened several times since then counts
    once.

    Attributes:
        readable_end: End of the offsets that readers may see (I9, exclusive).
        confirmed_end: All persistent messages below it may be confirmed (I3, exclusive).
        is_failed: Whether the log accepts no more writes.
        lost: Ranges of offsets that the log turned out not to have; each is reported once.
    """

    readable_end: int
    confirmed_end: int
    is_failed: bool
    lost: tuple[tuple[int, int], ...] = ()


class StoreOwner(SpillDelayOwner, Protocol):
    """Queue that a store notifies."""

    def store_answered(self, progress: StoreProgress) -> None:
        """Apply the progress at once: the disk has written, failed or continued.

        The store calls it only when the disk has answered, never during another call.
        """


class NoOwner:
    """Owner of a store whose queue is deleted: nothing is to be done."""

    __slots__ = ()

    @property
    def is_being_read(self) -> bool:
        """Return False: a deleted queue has no consumer."""
        return False

    def wake(self, task_queue: TaskQueue | None = None) -> None:
        """Do nothing."""

    def store_answered(self, progress: StoreProgress) -> None:
        """Do nothing."""


NO_OWNER = NoOwner()
