"""Frees disk space after each round of checkpoints: removes and seals segments."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from amqp_server.broker.storing.failed_stores import is_disk_full
from amqp_server.broker.stream import Stream
from amqp_server.broker.transfers.delay_queue import DELAY_QUEUE_NAME
from amqp_server.upkeep.compactor import Settled
from appendlog import RemoveSettledRequest
from appendlog.reclaim.retention import (
    ends_within_total,
    forced_end,
    kept_settled,
    removal_end,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amqp_server.base.time_slice import TimeSlice
    from amqp_server.broker.broker import Broker
    from amqp_server.broker.queue import Queue
    from amqp_server.upkeep.committer import Committer
    from amqp_server.upkeep.compactor import Compactor
    from amqp_server.upkeep.disk_reserve import DiskReserve
    from appendlog import Flusher
    from appendlog.reclaim.leases import Leases
    from appendlog.segments.segment import Segment
    from offsets.settlement_snapshot import SettlementSnapshot

SWEPT_QUEUES = 256
"""Queues a round that are checked for segments to remove although nothing changed in them."""


class Reclaimer:
    """Requests the removal, sealing and rewriting of segments. The event loop owns it.

    Args:
        broker: Broker whose queues are checked.
        flusher: Carries out the requests.
        committer: Names the offsets that the redo journal still needs.
        compactor: Gets the settlement of each queue and chooses what to rewrite.
        leases: Name the segments that other processes read.
        reserve: Disk reserve that makes room for sealing segments on a full disk.
    """

    def __init__(
        self,
        broker: Broker,
        flusher: Flusher,
        committer: Committer,
        compactor: Compactor,
        leases: Leases,
        reserve: DiskReserve,
    ) -> None:
        self._broker = broker
        self._flusher = flusher
        self._committer = committer
        self._compactor = compactor
        self._leases = leases
        self._reserve = reserve
        self._total_bytes = broker.config.retain_bytes_total
        self._unswept: list[Queue] = []
        # Queues whose segments were pinned: compaction may become possible without any change in
        # them.
        self._held_back: dict[Queue, SettlementSnapshot] = {}

    async def run_round(
        self,
        moved: Sequence[Queue],
        settled: Mapping[Queue, SettlementSnapshot],
        time_slice: TimeSlice,
    ) -> None:
        """Remove what is no longer needed in the queues that changed and in some of the others.

        Args:
            moved: Queues that have changed since the last round.
            settled: Settlement that is in a checkpoint on the disk, for the journaled ones among
                them.
            time_slice: Time slice of this round on the event loop.
        """
        now_ns = self._broker.turn.clock.time_ns()
        kept_from = await self._kept_from()
        settled = {**self._held_back, **settled}
        queues = dict.fromkeys([*moved, *self._held_back, *self._next_unswept()])
        self._held_back = {}
        for queue in queues:
            await time_slice.yield_if_due()
            if queue.is_deleted:
                continue
            if self._is_emptied_and_failed(queue, now_ns, kept_from):
                await self._revive(queue)
            self._remove(queue, now_ns, kept_from)
            self._offer(queue, settled.get(queue), kept_from)
        if self._total_bytes:
            await self._keep_within_total(now_ns, kept_from, time_slice)
        await self._compactor.run_round()

    async def _kept_from(self) -> dict[Queue, int]:
        """Return, by queue, the lowest offset that leases and the redo journal need."""
        leased = await asyncio.to_thread(self._leases.low_offsets)
        kept = dict(self._committer.kept_from())
        if leased:
            for queue in self._broker.queues():
                low = leased.get(queue.incarnation)
                if low is not None:
                    kept[queue] = min(low, kept.get(queue, low))
        return kept

    def _remove(self, queue: Queue, now_ns: int, kept_from: Mapping[Queue, int]) -> None:
        """Request the removal and the sealing of segments by the queue's own retention rules."""
        log = queue.store.log
        policy = queue.storage_settings.retention
        if isinstance(queue, Stream):
            queue.shorten(now_ns)
        floor = self._floor(queue, kept_from)
        end = self._forced_end(queue, now_ns, kept_from)
        # Nothing is appended to a failed log, but its segments may be what filled the disk.
        if not queue.is_failed and log.is_roll_due(now_ns, floor, policy.keep_since_ns(now_ns)):
            # The flusher runs appends first, so the removal finds the segment sealed.
            queue.store.request_roll()
            if not policy.keeps_settled:
                end = max(end, floor)
        elif log.has_settled_segment(floor):
            end = max(end, removal_end(log.segments, floor, policy, now_ns))
        if end > log.log_start_offset or log.reclaim.unremoved:
            self._flusher.submit(RemoveSettledRequest(log, end))

    def _is_emptied_and_failed(
        self, queue: Queue, now_ns: int, kept_from: Mapping[Queue, int]
    ) -> bool:
        """Return whether only a failed seal keeps the last, settled segment of a log."""
        log = queue.store.log
        floor = self._floor(queue, kept_from)
        keep_since_ns = queue.storage_settings.retention.keep_since_ns(now_ns)
        return (
            queue.is_failed
            and log.log_end_offset <= floor
            and log.is_roll_due(now_ns, floor, keep_since_ns)
        )

    async def _revive(self, queue: Queue) -> None:
        """Reopen a failed log although the disk has no room yet, so that it can free some.

        Everything in the log is settled, so it writes little before a later round seals it.
        """
        failure = queue.store.failure
        if failure is not None and is_disk_full(failure.cause):
            await asyncio.to_thread(self._reserve.release_for, failure)
            queue.store.reopen()

    def _forced_end(self, queue: Queue, now_ns: int, kept_from: Mapping[Queue, int]) -> int:
        """Drop unsettled messages of segments that retention removes; return the removal's end."""
        log = queue.store.log
        policy = queue.storage_settings.retention
        if not policy.may_force or queue.name == DELAY_QUEUE_NAME:
            return 0
        end = forced_end(log.segments, policy, now_ns)
        if end <= log.log_start_offset:
            return 0
        queue.forced_removal.drop_below(queue, end)
        return min(end, self._floor(queue, kept_from))

    async def _keep_within_total(
        self, now_ns: int, kept_from: Mapping[Queue, int], time_slice: TimeSlice
    ) -> None:
        """Request removals until all queues together keep no more than the configured total."""
        kept: dict[Queue, tuple[Sequence[Segment], int]] = {}
        for queue in tuple(self._broker.queues()):
            await time_slice.yield_if_due()
            log = queue.store.log
            policy = queue.storage_settings.retention
            floor = self._floor(queue, kept_from)
            if policy.keeps_settled and log.has_settled_segment(floor):
                end = removal_end(log.segments, floor, policy, now_ns)
                kept[queue] = kept_settled(log.segments, floor, end, policy)
        for queue, end in ends_within_total(kept, self._total_bytes, now_ns).items():
            if not queue.is_deleted:
                self._flusher.submit(RemoveSettledRequest(queue.store.log, end))

    def _floor(self, queue: Queue, kept_from: Mapping[Queue, int]) -> int:
        """Return the offset below which all is settled on the disk and no reader needs it."""
        floor = queue.checkpointed_floor if queue.is_journaled else queue.settlement.ack_floor
        kept = self._kept(queue, kept_from)
        return floor if kept is None else min(floor, kept)

    def _kept(self, queue: Queue, kept_from: Mapping[Queue, int]) -> int | None:
        """Return the lowest offset of a log that must stay, or None if nothing pins it.

        Read the pins as late as possible: one may have been set since the round began.
        """
        known = (kept_from.get(queue), self._broker.retention_pins.low_offset(queue))
        return min((low for low in known if low is not None), default=None)

    def _offer(
        self, queue: Queue, snapshot: SettlementSnapshot | None, kept_from: Mapping[Queue, int]
    ) -> None:
        """Propose a queue to the compactor, with what the disk has as settled."""
        if queue.storage_settings.retention.keeps_settled or queue.is_failed:
            return
        if isinstance(queue, Stream):
            # Retention settles a stream from its beginning and removes whole segments.
            return
        if queue.is_journaled:
            end = queue.store.recovery_point
        else:
            # The log of a transient queue need not survive a crash, so its current settlement
            # counts.
            end = queue.store.written_end
            snapshot = queue.settlement.snapshot(end)
        if snapshot is not None:
            kept = self._kept(queue, kept_from)
            if kept is not None:
                self._held_back[queue] = snapshot
            # Leave out the segment that ends there: `end` on the disk may still refer to it.
            end = end - 1 if queue.is_journaled else end
            end = end if kept is None else min(end, kept)
            self._compactor.offer(queue, Settled(snapshot, end))

    def _next_unswept(self) -> list[Queue]:
        """Return the next few of all queues: time alone may make their segments removable."""
        if not self._unswept:
            self._unswept = list(self._broker.queues())
        swept = self._unswept[-SWEPT_QUEUES:]
        del self._unswept[-SWEPT_QUEUES:]
        return swept
