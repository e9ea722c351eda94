"""What a store calls when its messages, its log or its room change."""

from __future__ import annotations

from typing import Protocol

from amqp_server.broker.storing.spill_delay import SpillDelayOwner


class StoreOwner(SpillDelayOwner, Protocol):
    """Queue that a store notifies."""

    def store_moved(self) -> None:
        """Read, claim or confirm more: the store has made progress."""

    def store_failed(self) -> None:
        """Refuse what waits for the disk: nothing more can be written."""

    def store_reopened(self) -> None:
        """Continue: the failed log works again."""

    def store_lost(self, start: int, end: int) -> None:
        """Settle `[start, end)`: the log no longer has its records."""


class NoOwner:
    """Owner of a store whose queue is deleted: nothing is to be done."""

    __slots__ = ()

    @property
    def is_being_read(self) -> bool:
        """Return False: a deleted queue has no consumer."""
        return False

    def store_moved(self) -> None:
        """Do nothing."""

    def store_failed(self) -> None:
        """Do nothing."""

    def store_reopened(self) -> None:
        """Do nothing."""

    def store_lost(self, start: int, end: int) -> None:
        """Do nothing."""


NO_OWNER = NoOwner()
