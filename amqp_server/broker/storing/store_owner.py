"""Owner that a store calls when its messages, its log or its room change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.storing.spill_delay import SpillDelayOwner

if TYPE_CHECKING:
    from amqp_server.broker.storing.store_progress import StoreProgress
    from amqp_server.broker.turn import TaskQueue


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
