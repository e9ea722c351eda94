"""Compaction in the background: segments that a few old messages pin are written anew.

After each round of checkpoints the queues in which something moved are looked at, in a worker:
which of their sealed segments are mostly settled, as the checkpoint says it? At most one of each
queue, and about `ROUND_BYTES` in all, are then handed to the flusher's maintenance, one at a
time: what appends and deletes other logs has a thread to itself meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

from appendlog import CompactRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from amqp_server.broker.queue import Queue
    from appendlog import Flusher, FlushResult
    from appendlog.segments.segment import Segment
    from offsets.settlement_snapshot import SettlementSnapshot

logger = logging.getLogger(__name__)

ROUND_BYTES = 256 * 1024 * 1024
"""Segments that are begun after one round of checkpoints hold together about this much at most."""
FREED_BYTES_MIN = 32 * 1024
"""Less than this is not worth the syncs."""
LIVE_RANGES_MAX = 100_000
"""A segment with more pieces that are live waits until they are fewer."""
LIVE_RECORDS_SHARE = 0.5
"""A segment is looked at closely when at most this share of its records is live."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What the disk knows of one queue.

    Attributes:
        snapshot: What is settled.
        end: Segments that reach past this offset are left alone.
    """

    snapshot: SettlementSnapshot
    end: int


class Candidate(NamedTuple):
    """A segment that is mostly settled, as far as its records can tell."""

    segment: Segment
    live_count: int
    freed_bytes: int


class Compactor:
    """Chooses what is compacted. The event loop owns it.

    Args:
        flusher: Does it.
        compact_below: Share of a segment's bytes below which it is written anew; 0 = never.
        free_bytes: Room on the disk that may be used; asked in a worker.
    """

    def __init__(
        self, flusher: Flusher, compact_below: float, free_bytes: Callable[[], int]
    ) -> None:
        self._flusher = flusher
        self._compact_below = compact_below
        self._free_bytes = free_bytes
        self._offered: dict[Queue, Settled] = {}
        self._waiting: deque[tuple[Queue, CompactRequest]] = deque()
        self._under_way: CompactRequest | None = None
        # By queue and base offset: how many records were live when it was not worth it.
        self._tried: WeakKeyDictionary[Queue, dict[int, int]] = WeakKeyDictionary()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being compacted, or waits for its turn in this round."""
        return self._under_way is None and not self._waiting

    def offer(self, queue: Queue, settled: Settled) -> None:
        """Take note of what is settled in a queue; for the next round.

        Args:
            queue: One that keeps nothing of what is settled.
            settled: As it is on the disk, if the queue is to survive the machine.
        """
        if self._compact_below and len(queue.store.log.segments) > 1:
            self._offered[queue] = settled

    async def run_round(self) -> None:
        """Choose among the queues that were offered, unless earlier choices still wait."""
        if not self._offered or self._under_way is not None:
            return
        offered, self._offered = self._offered, {}
        looks = [
            (queue, settled, queue.store.log.segments[:-1], dict(self._tried.get(queue, {})))
            for queue, settled in offered.items()
            if not (queue.is_deleted or queue.store.is_failed)
        ]
        try:
            chosen = await asyncio.to_thread(self._choose, looks)
        except OSError as error:
            # Whoever asked for the round has a checkpoint all the same.
            logger.warning("nothing compacted error=%s", error)
            return
        for queue, request in chosen:
            # There may be more to do in a later round, though nothing moves till then.
            self._offered.setdefault(queue, offered[queue])
            if request is not None:
                self._waiting.append((queue, request))
        self._begin_next()

    def compacted(self, result: FlushResult) -> None:
        """Take the flusher's answer, and go on with the next segment."""
        assert result.request is self._under_way, "an answer to another request"
        self._under_way = None
        self._begin_next()

    def stop(self) -> None:
        """Begin nothing more."""
        self._offered.clear()
        self._waiting.clear()
        self._compact_below = 0

    def _begin_next(self) -> None:
        while self._waiting:
            queue, request = self._waiting.popleft()
            if queue.is_deleted or queue.store.is_failed:
                continue
            tried = self._tried.setdefault(queue, {})
            tried[request.segment.base_offset] = _length(request.live)
            first = queue.store.log.log_start_offset
            for base in [base for base in tried if base < first]:
                del tried[base]
            self._under_way = request
            self._flusher.submit(request)
            return

    def _choose(
        self,
        looks: Sequence[tuple[Queue, Settled, Sequence[Segment], Mapping[int, int]]],
    ) -> list[tuple[Queue, CompactRequest | None]]:
        """Return a request for each queue that is to have one now, None where it has to wait."""
        best = []
        for queue, settled, segments, tried in looks:
            candidate = best_candidate(segments, settled, tried)
            if candidate is not None:
                best.append((candidate, queue, settled))
        best.sort(key=lambda each: each[0].freed_bytes, reverse=True)
        chosen: list[tuple[Queue, CompactRequest | None]] = []
        room_bytes, free_bytes = ROUND_BYTES, self._free_bytes()
        for candidate, queue, settled in best:
            segment = candidate.segment
            live_bytes_max = int(segment.data_bytes * self._compact_below)
            if room_bytes <= 0 or free_bytes < live_bytes_max:
                chosen.append((queue, None))
                continue
            room_bytes -= segment.data_bytes
            live = settled.snapshot.live_ranges(segment.base_offset, segment.end_offset)
            if len(live) <= LIVE_RANGES_MAX:
                log = queue.store.log
                chosen.append((queue, CompactRequest(log, segment, live, live_bytes_max)))
        return chosen


def best_candidate(
    segments: Sequence[Segment], settled: Settled, tried: Mapping[int, int]
) -> Candidate | None:
    """Return the segment from which most can be had, None if there is none worth it.

    Args:
        segments: Sealed ones of one log.
        settled: Of the queue.
        tried: How many records were live when a segment was last tried, by base offset: it is
            tried again when half of them are.
    """
    best = None
    for segment in segments:
        records = segment.summary.record_count
        if segment.end_offset > settled.end or segment.end_offset <= settled.snapshot.ack_floor:
            continue
        if not records or not segment.is_sealed:
            continue
        span = segment.end_offset - segment.base_offset
        count = settled.snapshot.settled_count(segment.base_offset, segment.end_offset)
        live_count = min(span - count, records)
        freed_bytes = segment.data_bytes * (records - live_count) // records
        if live_count > records * LIVE_RECORDS_SHARE or freed_bytes < FREED_BYTES_MIN:
            continue
        if 2 * live_count > tried.get(segment.base_offset, 2 * live_count):
            continue
        if best is None or freed_bytes > best.freed_bytes:
            best = Candidate(segment, live_count, freed_bytes)
    return best


def _length(ranges: Sequence[tuple[int, int]]) -> int:
    return sum(end - start for start, end in ranges)
