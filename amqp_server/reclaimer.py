"""Disk space is given back behind each round of checkpoints: what is settled there may go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from amqp_server.compactor import Settled
from appendlog import RemoveSettledRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue
    from amqp_server.committer import Committer
    from amqp_server.compactor import Compactor
    from amqp_server.loop_share import LoopShare
    from appendlog import Flusher
    from offsets.settlement_snapshot import SettlementSnapshot

SWEPT_QUEUES = 256
"""Queues whose old segments a round looks for, though nothing has moved in them."""


class Reclaimer:
    """Asks for the removal, the sealing and the rewriting of segments. The event loop owns it.

    Args:
        broker: Whose queues.
        flusher: Carries it out.
        committer: Says from where on logs must stay as they are.
        compactor: Is told what is settled.
    """

    def __init__(
        self, broker: Broker, flusher: Flusher, committer: Committer, compactor: Compactor
    ) -> None:
        """Begin before the first round."""
        self._broker = broker
        self._flusher = flusher
        self._committer = committer
        self._compactor = compactor
        self._unswept: list[Queue] = []

    async def run_round(
        self,
        moved: Sequence[Queue],
        settled: Mapping[Queue, SettlementSnapshot],
        share: LoopShare,
    ) -> None:
        """Look for what is no longer needed in these queues, and in some of the others.

        Args:
            moved: Queues in which something has moved.
            settled: Of the journaled ones among them: what is in a checkpoint on the disk.
            share: Of the loop.
        """
        now_ns = time.time_ns()
        kept_from = self._committer.kept_from()
        for queue in dict.fromkeys([*moved, *self._next_unswept()]):
            await share.breathe()
            if queue.is_deleted:
                continue
            self._remove_settled(queue, now_ns, kept_from)
            self._offer(queue, settled.get(queue), kept_from)
        await self._compactor.run_round()

    def _remove_settled(self, queue: Queue, now_ns: int, kept_from: Mapping[Queue, int]) -> None:
        floor = queue.checkpointed_floor if queue.is_journaled else queue.settlement.ack_floor
        floor = min(floor, kept_from.get(queue, floor))
        log = queue.store.log
        retain_seconds = queue.storage_settings.retain_for_seconds
        keep_since_ns = now_ns - int(retain_seconds * 1e9) if retain_seconds else None
        # A log that has failed is not written to, but it may be what has filled the disk.
        if not queue.store.is_failed and log.is_roll_due(now_ns, floor, keep_since_ns):
            # Appends go first, so the removal finds it sealed.
            queue.store.request_roll()
        elif not log.has_settled_segment(floor):
            return
        self._flusher.submit(RemoveSettledRequest(log, floor, keep_since_ns))

    def _offer(
        self, queue: Queue, snapshot: SettlementSnapshot | None, kept_from: Mapping[Queue, int]
    ) -> None:
        """Let the compactor look at a queue, as far as the disk knows what is settled in it."""
        if queue.storage_settings.retain_for_seconds or queue.store.is_failed:
            return
        if queue.is_journaled:
            end = queue.store.recovery_point
        else:
            # Its log need not outlive the process, so what is settled now is enough.
            end = queue.store.written_end
            snapshot = queue.settlement.snapshot(end)
        if snapshot is not None:
            # Not the segment that ends there: `end` on the disk may still speak of it.
            end = min(end - 1, kept_from.get(queue, end)) if queue.is_journaled else end
            self._compactor.offer(queue, Settled(snapshot, end))

    def _next_unswept(self) -> list[Queue]:
        """Return the next few of all queues: time alone may be what lets their segments go."""
        if not self._unswept:
            self._unswept = list(self._broker.queues())
        swept = self._unswept[-SWEPT_QUEUES:]
        del self._unswept[-SWEPT_QUEUES:]
        return swept
