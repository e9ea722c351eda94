"""Removes unsettled messages from a queue whose segment is too old (`x-force-remove-after`)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.queue_part import QueuePort
from amqp_server.broker.transfers.deaths import EXPIRED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.broker.loading_messages import LoadingMessages
    from amqp_server.broker.transfers.forwarder import Forwarder

logger = logging.getLogger("amqp_server.broker.rules.forced_removal")


class RemovingQueue(QueuePort, Protocol):
    """A queue whose unsettled messages may be removed."""

    @property
    def is_draining(self) -> bool:
        """Whether the server stops, and the queue drops nothing more."""

    @property
    def loading(self) -> LoadingMessages:
        """Messages that are not ready yet."""

    @property
    def forwarder(self) -> Forwarder | None:
        """Forwards dead letters; None without a dead-letter exchange."""


class ForcedRemoval:
    """Drops the unsettled messages of one queue below an offset.

    Ready messages are dropped at once: into the dead-letter exchange, as expired, if the queue has
    one. Messages that a consumer has are settled when all those dead letters have arrived. A later
    acknowledgement or rejection by the consumer has no effect.

    Attributes:
        end: Offset below which no message becomes ready again.
        dropped_count: Messages that were dropped since the server started.
    """

    __slots__ = ("dropped_count", "end")

    def __init__(self) -> None:
        self.end = 0
        self.dropped_count = 0

    def drop_below(self, queue: RemovingQueue, end: int) -> None:
        """Drop all ready messages below `end`; does nothing while messages are still loading.

        Recovered messages are not ready before that. They would be settled and ready at the same
        time, and never become dead letters.

        Args:
            queue: Queue whose messages are dropped.
            end: Offset below which they are.
        """
        # What is settled after the last checkpoint of a stop would return at the next start.
        if queue.loading.is_loading or queue.is_draining:
            return
        self.end = max(self.end, end)
        floor = queue.settlement.ack_floor
        if floor >= self.end:
            return
        for taken in queue.ready.take_range(floor, self.end):
            queue.drop(taken.start, taken.end, EXPIRED)
            self._count(queue, taken.start, taken.end)
        if queue.forwarder is not None and queue.forwarder.has_messages_below(self.end):
            return
        for start, stop in queue.settlement.unsettled_ranges(floor, self.end):
            queue.settle(start, stop)
            self._count(queue, start, stop)

    def drop_returned(
        self, queue: QueuePort, ranges: Sequence[tuple[int, int]]
    ) -> Sequence[tuple[int, int]]:
        """Settle requeued messages below `self.end`; return the other ranges.

        Args:
            queue: Queue that they return to.
            ranges: Ascending and disjoint.
        """
        if not ranges or ranges[0][0] >= self.end:
            return ranges
        kept: list[tuple[int, int]] = []
        for start, end in ranges:
            stop = max(start, min(end, self.end))
            if start < stop:
                queue.settle(start, stop)
            if stop < end:
                kept.append((stop, end))
        return kept

    def _count(self, queue: QueuePort, start: int, end: int) -> None:
        self.dropped_count += end - start
        logger.warning(
            "unsettled messages removed queue=%s vhost=%s from=%d to=%d",
            queue.name,
            queue.virtual_host.name,
            start,
            end,
        )
