"""Who hears of what happens in a store."""

from __future__ import annotations

from typing import Protocol

from amqp_server.broker.storing.spill_delay import SpillDelayOwner


class StoreOwner(SpillDelayOwner, Protocol):
    """Who hears that something in the store has moved: the queue."""

    def store_moved(self) -> None:
        """More can be read, claimed or confirmed than before."""

    def store_failed(self) -> None:
        """Nothing more can be written: what waits for the disk is refused."""

    def store_reopened(self) -> None:
        """What had failed works again."""

    def store_lost(self, start: int, end: int) -> None:
        """The log no longer has the records of `[start, end)`."""
