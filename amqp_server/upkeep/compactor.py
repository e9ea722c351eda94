"""Background compaction: rewrites segments that a few old messages keep on the disk.

After each round of checkpoints a worker looks at the queues that changed. It chooses sealed
segments that are mostly settled according to the checkpoint: at most one a queue, about
`ROUND_BYTES` in total. The flusher's maintenance thread rewrites them one at a time; another thread
keeps appending to the logs and deleting segments.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from appendlog import CompactRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from amqp_server.broker.queue import Queue
    from appendlog import Flusher, FlushResult
    from appendlog.segments.segment import Segment
    from offsets.settlement_snapshot import SettlementSnapshot

logger = logging.getLogger("amqp_server.compactor")

ROUND_BYTES = 256 * 1024 * 1024
"""Upper limit, roughly, for the bytes of the segments that one round rewrites."""
FREED_BYTES_MIN = 32 * 1024
"""Bytes that a rewrite must free; below this it is not worth its syncs."""
LIVE_RANGES_MAX = 100_000
"""Live ranges in a segment above which its rewrite is postponed."""
LIVE_RECORDS_SHARE = 0.5
"""Share of live records up to which a segment's live ranges are computed."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Settlement of one queue, as far as it is safe to rely on.

    Attributes:
        snapshot: Settled offsets.
        end: Upper bound, exclusive: compaction skips segments that end above this offset.
    """

    snapshot: SettlementSnapshot
    end: int


class Candidate(NamedTuple):
    """A segment that is mostly settled, estimated from its record count."""

    segment: Segment
    live_count: int
    freed_bytes: int


class Compactor:
    """Chooses the segments that are rewritten. The event loop owns it.

    Args:
        flusher: Rewrites the segments that are submitted to it.
        compact_below: Share of live bytes below which a segment is rewritten, 0 to 1; 0 = never.
        free_bytes: Returns the disk space in bytes that may be used; called in a worker thread.
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

    @property
    def is_idle(self) -> bool:
        """Whether no segment is being rewritten, and none waits for its turn in this round."""
        return self._under_way is None and not self._waiting

    def offer(self, queue: Queue, settled: Settled) -> None:
        """Propose a queue, with its settlement, for the next round.

        Args:
            queue: Queue that keeps no settled messages.
            settled: Its settlement; for a durable queue, what is on the disk of it.
        """
        if self._compact_below and len(queue.store.log.segments) > 1:
            self._offered[queue] = settled

    async def run_round(self) -> None:
        """Choose among the proposed queues, unless a rewrite of an earlier round still runs."""
        if not self._offered or self._under_way is not None:
            return
        offered, self._offered = self._offered, {}
        looks = [
            (queue, settled, queue.store.log.segments[:-1], dict(queue.rewrites_tried or {}))
            for queue, settled in offered.items()
            if not (queue.is_deleted or queue.is_failed)
        ]
        try:
            chosen = await asyncio.to_thread(self._choose, looks)
        except OSError as error:
            # The caller's checkpoint succeeded: a failed compaction must not fail it.
            logger.warning("nothing compacted error=%s", error)
            return
        for queue, request in chosen:
            # Propose the queue again: later rounds may find more, even if nothing changes in it.
            self._offered.setdefault(queue, offered[queue])
            if request is not None:
                self._waiting.append((queue, request))
        self._begin_next()

    def compacted(self, result: FlushResult) -> None:
        """Take the flusher's result and start the next rewrite."""
        assert result.request is self._under_way, "an answer to another request"
        self._under_way = None
        self._begin_next()

    def stop(self) -> None:
        """Start no more rewrites."""
        self._offered.clear()
        self._waiting.clear()
        self._compact_below = 0

    def _begin_next(self) -> None:
        while self._waiting:
            queue, request = self._waiting.popleft()
            if queue.is_deleted or queue.is_failed:
                continue
            tried = queue.rewrites_tried
            if tried is None:
                tried = queue.rewrites_tried = {}
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
        """Return a request for each chosen queue; None if it must wait for a later round."""
        best = []
        for queue, settled, segments, tried in looks:
            candidate = best_candidate(segments, settled, tried)
            if candidate is not None:
                best.append((candidate, queue, settled))
        best.sort(key=lambda each: each[0].freed_bytes, reverse=True)
        chosen: list[tuple[Queue, CompactRequest | None]] = []
        room_bytes = ROUND_BYTES
        free_bytes = self._free_bytes()
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
    """Return the segment whose rewrite frees most bytes; None if none is worth it.

    Args:
        segments: Sealed segments of one log.
        settled: Settlement of the log's queue.
        tried: Live records of each segment at its last attempt, by base offset. A segment is tried
            again when at most half of them are still live.
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
