"""When a queue's messages expire: a heap by deadline, and the same runs by offset.

Messages that were published together and live equally long are one run. The heap says what
expires next, wherever in the queue it is; the runs say when a message that comes back expires.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsets.settlement import Settlement

_PRUNE_MIN = 1024
"""Runs that have to be there before it is worth looking for settled ones."""

_Run = list[int]
"""Deadline in milliseconds since 1970, start, end; a list, for the last one grows."""


class Deadlines:
    """The deadlines of one queue's unsettled messages. A queue without any holds nothing."""

    def __init__(self) -> None:
        """Begin without deadlines."""
        self._runs: list[_Run] = []
        self._heap: list[_Run] = []
        self._taken_ms = 0
        self._prune_at = _PRUNE_MIN

    def __len__(self) -> int:
        """Return how many runs have a deadline to come."""
        return len(self._heap)

    @property
    def next_ms(self) -> int | None:
        """The next deadline, in milliseconds since 1970, or None."""
        return self._heap[0][0] if self._heap else None

    def add(self, start: int, end: int, deadline_ms: int) -> None:
        """Note that `[start, end)`, above all others, expires at `deadline_ms`."""
        if self._runs:
            last = self._runs[-1]
            if last[0] == deadline_ms > self._taken_ms and last[2] == start:
                last[2] = end
                return
        run = [deadline_ms, start, end]
        self._runs.append(run)
        heapq.heappush(self._heap, run)

    def take_due(self, now_ms: int) -> list[tuple[int, int]]:
        """Return the offsets whose deadline is `now_ms` or before, each once, soonest first."""
        due: list[tuple[int, int]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            _, start, end = heapq.heappop(self._heap)
            due.append((start, end))
        self._taken_ms = max(self._taken_ms, now_ms)
        return due

    def rearm(self, start: int, end: int) -> None:
        """Let what was due of `[start, end)` be due again: it could not expire when it was."""
        at = max(bisect_right(self._runs, start, key=_start) - 1, 0)
        while at < len(self._runs) and self._runs[at][1] < end:
            deadline_ms, low, high = self._runs[at]
            if deadline_ms <= self._taken_ms and start < high:
                heapq.heappush(self._heap, [deadline_ms, max(low, start), min(high, end)])
            at += 1

    def prune(self, settlement: Settlement) -> None:
        """Let go of what is settled, when there may be much of it."""
        if max(len(self._runs), len(self._heap)) < self._prune_at:
            return
        self._runs = [run for run in self._runs if _is_unsettled(run, settlement)]
        self._heap = [run for run in self._heap if _is_unsettled(run, settlement)]
        heapq.heapify(self._heap)
        self._prune_at = max(2 * max(len(self._runs), len(self._heap)), _PRUNE_MIN)


def _start(run: _Run) -> int:
    return run[1]


def _is_unsettled(run: _Run, settlement: Settlement) -> bool:
    _, start, end = run
    return end > settlement.ack_floor and bool(settlement.unsettled_ranges(start, end))
