"""Checkpoints in the background: what is settled goes to disk, and freed segments go away."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from appendlog import RemoveSettledRequest
from offsets import QueueCheckpoint

if TYPE_CHECKING:
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue
    from amqp_server.committer import Committer
    from appendlog import Flusher
    from offsets.checkpoint import CheckpointStore

logger = logging.getLogger(__name__)


class Checkpointer:
    """Writes the settlement of dirty queues, one round at a time.

    A checkpoint may lag behind what is settled, never lead what is durable: it holds at most
    the recovery point (invariant I4), or acks could outlive their messages and hide new ones.

    Args:
        broker: Whose queues.
        store: Where to; written in a worker, one round at a time.
        flusher: Removes segments, in the thread that writes them.
        committer: Is told what reached the disk, and says which segments it needs.
        interval_seconds: Pause between rounds; 0 means only when asked for.
    """

    def __init__(
        self,
        broker: Broker,
        store: CheckpointStore,
        flusher: Flusher,
        committer: Committer,
        interval_seconds: float,
    ) -> None:
        """Begin without having written."""
        self._broker = broker
        self._store = store
        self._flusher = flusher
        self._committer = committer
        self._interval_seconds = interval_seconds
        self._round = asyncio.Lock()

    async def run(self) -> None:
        """Write a round every interval, for ever; none if the interval is 0."""
        if not self._interval_seconds:
            return
        while True:
            await asyncio.sleep(self._interval_seconds)
            try:
                # Stopping must not end a round half way: the last one would write beside it.
                await asyncio.shield(self.write_round())
            except Exception:
                logger.exception("checkpoint failed")

    async def write_round(self, *, clean: bool = False) -> None:
        """Write all queues that have settled something since their last checkpoint.

        Args:
            clean: The server is stopping, and this is its last word.
        """
        async with self._round:
            broker = self._broker
            # The last word names every queue: it also tells what was delivered.
            dirty = [
                queue
                for queue in broker.queues()
                if queue.is_journaled and (queue.is_checkpoint_due or clean)
            ]
            removed, broker.removed_incarnations = broker.removed_incarnations, []
            for queue in broker.queues():
                queue.store.request_sync()
            committed = self._committer.begin_round()
            if not (dirty or removed or clean):
                await self._committer.end_round(committed)
                self._remove_settled()
                return
            states = [checkpoint_of(queue) for queue in dirty]
            for queue in dirty:
                # What is settled but not yet durable had to be left out: it is due again.
                queue.is_checkpoint_due = (
                    queue.store.recovery_point < queue.store.cursor and not queue.store.is_failed
                )
            try:
                await asyncio.to_thread(self._store.write_round, states, removed, clean=clean)
            except BaseException:
                for queue in dirty:
                    queue.is_checkpoint_due = True
                raise
            for queue, state in zip(dirty, states, strict=True):
                queue.checkpointed_floor = state.ack_floor
            await self._committer.end_round(committed)
            self._remove_settled()

    def _remove_settled(self) -> None:
        """Ask for the removal of segments that nobody needs, and for the sealing of old ones."""
        now_ns = time.time_ns()
        kept_from = self._committer.kept_from()
        for queue in self._broker.queues():
            floor = queue.checkpointed_floor if queue.is_journaled else queue.settlement.ack_floor
            floor = min(floor, kept_from.get(queue, floor))
            log = queue.store.log
            retain_seconds = queue.storage_settings.retain_for_seconds
            keep_since_ns = now_ns - int(retain_seconds * 1e9) if retain_seconds else None
            if log.is_roll_due(now_ns, floor, keep_since_ns):
                # Appends go first, so the removal finds it sealed.
                queue.store.request_roll()
            elif not log.has_settled_segment(floor):
                continue
            if not queue.store.is_failed:
                self._flusher.submit(RemoveSettledRequest(log, floor, keep_since_ns))


def checkpoint_of(queue: Queue) -> QueueCheckpoint:
    """Return what a checkpoint may say of a queue now."""
    durable_end = queue.store.recovery_point
    ack_floor = min(queue.settlement.ack_floor, durable_end)
    assert queue.checkpointed_floor <= ack_floor, "I1: a checkpoint went back"
    return QueueCheckpoint(
        incarnation=queue.incarnation,
        ack_floor=ack_floor,
        acked_ranges=queue.settlement.ranges(durable_end),
        delivered_watermark=queue.delivered_watermark,
        redelivery_counts=queue.known_delivery_counts(durable_end),
    )
