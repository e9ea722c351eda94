"""When a queue's messages expire: a heap by deadline, and the same runs by offset.

Messages that were published together with the same lifetime are one run. The heap says which
messages expire next, wherever they are in the queue. The runs say when a requeued message expires.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsets.settlement import Settlement

_PRUNE_MIN = 1024
"""Newly settled messages from which on it pays to remove their runs."""
DUE_RUNS_MAX = 512
"""Most runs that are taken at a time; more would delay the other queues."""
_NEVER_MS = -(1 << 62)
_START_BITS = 62
_COUNT_BITS = 24
_COUNT_MAX = (1 << _COUNT_BITS) - 1

_Run = int
"""Deadline (milliseconds of the steady clock), start and count of a run, highest bits first.

One integer sorts like the three numbers, and takes a third of their memory: a queue may hold
millions of messages with lifetimes of their own. A deadline may be negative, because a recovered
message may be older than the clock.
"""


class Deadlines:
    """The deadlines of one queue's unsettled messages; empty if no message expires."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        self._heap: list[_Run] = []
        # The last run may still grow. It is in neither list until it is closed.
        self._open: tuple[int, int, int] | None = None
        self._taken_ms = _NEVER_MS
        self._settled_count = 0

    def __len__(self) -> int:
        """Return the number of runs whose deadline is still to come."""
        return len(self._heap) + (self._open is not None)

    @property
    def next_ms(self) -> int | None:
        """The next deadline, in milliseconds of the steady clock, or None."""
        if self._open is None:
            return _deadline_ms(self._heap[0]) if self._heap else None
        return min(self._open[0], _deadline_ms(self._heap[0])) if self._heap else self._open[0]

    def add(self, start: int, end: int, deadline_ms: int) -> None:
        """Set the deadline of `[start, end)`, which lies above all others, to `deadline_ms`."""
        if self._open is not None:
            open_ms, open_start, open_end = self._open
            if open_ms == deadline_ms and open_end == start and end - open_start <= _COUNT_MAX:
                self._open = open_ms, open_start, end
                return
            self._close()
        self._open = deadline_ms, start, end

    def put_before(self, older: Deadlines) -> None:
        """Insert the deadlines of lower offsets; the caller must not use `older` again.

        The cost grows with the deadlines here, not with those in `older`.
        """
        if older._open is not None:
            older._close()
        older._runs.extend(self._runs)
        for run in self._heap:
            heapq.heappush(older._heap, run)
        self._runs, self._heap = older._runs, older._heap

    def take_due(self, now_ms: int) -> list[tuple[int, int]]:
        """Return the offsets whose deadline is `now_ms` or earlier, each once, soonest first.

        Returns at most `DUE_RUNS_MAX` runs; if there are as many, more may be due.
        """
        if self._open is not None and self._open[0] <= now_ms:
            self._close()
        due: list[tuple[int, int]] = []
        while self._heap and _deadline_ms(self._heap[0]) <= now_ms and len(due) < DUE_RUNS_MAX:
            run = heapq.heappop(self._heap)
            due.append((_start(run), _end(run)))
        self._taken_ms = max(self._taken_ms, now_ms)
        return due

    def rearm(self, start: int, end: int) -> None:
        """Make past deadlines of `[start, end)` due again: the messages could not expire then."""
        at = max(bisect_right(self._runs, start, key=_start) - 1, 0)
        while at < len(self._runs) and _start(self._runs[at]) < end:
            run = self._runs[at]
            if _deadline_ms(run) <= self._taken_ms and start < _end(run):
                low, high = max(_start(run), start), min(_end(run), end)
                heapq.heappush(self._heap, _run(_deadline_ms(run), low, high))
            at += 1

    def prune(self, settlement: Settlement) -> None:
        """Remove the runs of settled messages, once these may be half of all runs.

        So a queue that only fills up is never searched.
        """
        settled_count = settlement.ack_floor + settlement.settled_above_floor
        fresh_count = settled_count - self._settled_count
        if 2 * fresh_count < max(len(self._runs), len(self._heap), _PRUNE_MIN):
            return
        self._settled_count = settled_count
        self._runs = [run for run in self._runs if _is_unsettled(run, settlement)]
        self._heap = [run for run in self._heap if _is_unsettled(run, settlement)]
        heapq.heapify(self._heap)

    def _close(self) -> None:
        """Move the open run to the other runs; it cannot grow any more."""
        assert self._open is not None, "no run is open"
        deadline_ms, start, end = self._open
        while start < end:
            stop = min(end, start + _COUNT_MAX)
            run = _run(deadline_ms, start, stop)
            self._runs.append(run)
            heapq.heappush(self._heap, run)
            start = stop
        self._open = None


def _run(deadline_ms: int, start: int, end: int) -> _Run:
    return (deadline_ms << _START_BITS | start) << _COUNT_BITS | (end - start)


def _deadline_ms(run: _Run) -> int:
    return run >> (_START_BITS + _COUNT_BITS)


def _start(run: _Run) -> int:
    return run >> _COUNT_BITS & ((1 << _START_BITS) - 1)


def _end(run: _Run) -> int:
    return _start(run) + (run & _COUNT_MAX)


def _is_unsettled(run: _Run, settlement: Settlement) -> bool:
    start, end = _start(run), _end(run)
    if end - start == 1:
        return not settlement.is_settled(start)
    return end > settlement.ack_floor and bool(settlement.unsettled_ranges(start, end))
