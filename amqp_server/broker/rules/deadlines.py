"""When a queue's messages expire: runs by offset in pages, each with a heap by deadline.

Messages that were published together with the same lifetime are one run. The heaps say which
messages expire next, wherever they are in the queue. The runs say when a requeued message expires.
A queue may hold hundreds of thousands of runs, so what is settled is removed a page at a time.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

    from offsets.settlement import Settlement

PAGE_RUNS: Final = 1024
"""Runs of a page."""
_PRUNE_MIN = 1024
"""Newly settled messages from which on it pays to remove their runs."""
DUE_RUNS_MAX = 128
"""Most runs or ranges that are taken at a time: about 1 ms of work."""
_FEW_DUE = 16
"""Due runs of a page that are popped; more are found faster by a look at the whole heap."""
_SPARE_ENTRIES = 64
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


class _Page:
    """Neighbouring runs, and a heap of those whose deadline is to come."""

    __slots__ = ("heap", "runs")

    def __init__(self) -> None:
        self.runs: list[_Run] = []
        self.heap: list[_Run] = []


class Deadlines:
    """The deadlines of one queue's unsettled messages; empty if no message expires."""

    def __init__(self) -> None:
        # Ascending by offset, none empty.
        self._pages: list[_Page] = []
        # The soonest run of each page, as (run, order of entry, page). An entry counts only while
        # its run is still the soonest one of its page.
        self._soonest: list[tuple[_Run, int, _Page]] = []
        self._entries = count()
        self._run_count = 0
        self._armed_count = 0
        # The last run may still grow. It is in no page until it is closed.
        self._open: tuple[int, int, int] | None = None
        self._taken_ms = _NEVER_MS
        self._settled_count = 0
        # First offset that the search for settled messages has not reached; None: none is under
        # way.
        self._search_at: int | None = None

    def __len__(self) -> int:
        """Return the number of runs whose deadline is still to come."""
        return self._armed_count + (self._open is not None)

    @property
    def next_ms(self) -> int | None:
        """The next deadline, in milliseconds of the steady clock, or None."""
        page = self._soonest_page()
        if self._open is None:
            return None if page is None else _deadline_ms(page.heap[0])
        return self._open[0] if page is None else min(self._open[0], _deadline_ms(page.heap[0]))

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

        O(pages).
        """
        if older._open is not None:
            older._close()
        self._pages = older._pages + self._pages
        self._run_count += older._run_count
        self._armed_count += older._armed_count
        self._list_soonest()

    def take_due(self, now_ms: int) -> list[tuple[int, int]]:
        """Return the offsets whose deadline is `now_ms` or earlier, each once, soonest first.

        Returns at most `DUE_RUNS_MAX` runs; if there are as many, more may be due.
        """
        if self._open is not None and self._open[0] <= now_ms:
            self._close()
        due: list[tuple[int, int]] = []
        while len(due) < DUE_RUNS_MAX:
            page = self._soonest_page()
            if page is None or _deadline_ms(page.heap[0]) > now_ms:
                break
            run = heapq.heappop(page.heap)
            self._armed_count -= 1
            due.append((_start(run), _end(run)))
            if page.heap:
                heapq.heapreplace(self._soonest, (page.heap[0], next(self._entries), page))
        self._taken_ms = max(self._taken_ms, now_ms)
        return due

    def take_due_below(self, end: int, now_ms: int) -> list[tuple[int, int]]:
        """Return offsets whose deadline is `now_ms` or earlier, each once, as ascending ranges.

        Neighbours whose deadlines differ are one range. A call takes from one page, at most
        `DUE_RUNS_MAX` ranges; nothing is due below `end` any more once it returns none.

        Args:
            end: Runs that begin here or later stay; the last range may reach beyond it.
            now_ms: Time, in milliseconds of the steady clock.
        """
        if self._open is not None and self._open[0] <= now_ms:
            self._close()
        self._taken_ms = max(self._taken_ms, now_ms)
        ranges: list[tuple[int, int]] = []
        passed: list[tuple[_Run, int, _Page]] = []
        while (page := self._soonest_page()) is not None and _deadline_ms(page.heap[0]) <= now_ms:
            if _first_offset(page) < end and (ranges := self._take_ranges(page, end, now_ms)):
                break
            passed.append(heapq.heappop(self._soonest))
        for entry in passed:
            heapq.heappush(self._soonest, entry)
        return ranges

    def is_next_due_below(self, end: int, now_ms: int) -> bool:
        """Return whether the soonest run is due and begins below `end`. O(1)."""
        page = self._soonest_page()
        if page is None:
            return False
        return _deadline_ms(page.heap[0]) <= now_ms and _start(page.heap[0]) < end

    def _take_ranges(self, page: _Page, end: int, now_ms: int) -> list[tuple[int, int]]:
        heap, bound = page.heap, _run(now_ms + 1, 0, 0)
        count = len(heap)
        due: list[_Run] = []
        while heap and heap[0] < bound and len(due) < _FEW_DUE:
            due.append(heapq.heappop(heap))
        if heap and heap[0] < bound:
            due += [run for run in heap if run < bound]
            heap[:] = [run for run in heap if run >= bound]
            heapq.heapify(heap)
        due.sort(key=_start)
        ranges: list[tuple[int, int]] = []
        for at, run in enumerate(due):
            start = _start(run)
            if start < end and ranges and ranges[-1][1] == start:
                ranges[-1] = ranges[-1][0], _end(run)
            elif start < end and len(ranges) < DUE_RUNS_MAX:
                ranges.append((start, _end(run)))
            else:
                for kept in due[at:]:
                    heapq.heappush(heap, kept)
                break
        self._armed_count -= count - len(heap)
        if heap and ranges:
            self._push_soonest(page)
        return ranges

    def soonest_in_steps(
        self, runs_max: int, settlement: Settlement
    ) -> Generator[None, None, list[tuple[int, int, int]]]:
        """Return the steps to the soonest runs that are not settled: deadline, start and end.

        Each step looks at one page. What changes between two steps may be missing.
        """
        best: list[_Run] = []
        for page in tuple(self._pages):
            bound = best[-1] if len(best) >= runs_max else None
            found = [
                run
                for run in page.heap
                if (bound is None or run < bound) and _is_unsettled(run, settlement)
            ]
            if found:
                # A run that was armed again may be there twice.
                best = heapq.nsmallest(runs_max, {*best, *found})
            yield
        soonest = [(_deadline_ms(run), _start(run), _end(run)) for run in best]
        if self._open is not None:
            soonest = sorted([*soonest, self._open])[:runs_max]
        return soonest

    def rearm(self, start: int, end: int) -> None:
        """Make past deadlines of `[start, end)` due again: the messages could not expire then."""
        for at in range(self._page_number(start), len(self._pages)):
            page = self._pages[at]
            if _start(page.runs[0]) >= end:
                return
            self._rearm_page(page, start, end)

    def _rearm_page(self, page: _Page, start: int, end: int) -> None:
        at = max(bisect_right(page.runs, start, key=_start) - 1, 0)
        while at < len(page.runs) and _start(page.runs[at]) < end:
            run = page.runs[at]
            if _deadline_ms(run) <= self._taken_ms and start < _end(run):
                low, high = max(_start(run), start), min(_end(run), end)
                self._arm(page, _run(_deadline_ms(run), low, high))
            at += 1

    def prune(self, settlement: Settlement) -> bool:
        """Remove the runs of settled messages in one page, once these may be half of all runs.

        So a queue that only fills up is never searched.

        Returns:
            Whether more pages may have some.
        """
        if self._search_at is None:
            settled_count = settlement.ack_floor + settlement.settled_above_floor
            fresh_count = settled_count - self._settled_count
            if 2 * fresh_count < max(self._run_count, self._armed_count, _PRUNE_MIN):
                return False
            self._settled_count = settled_count
            self._search_at = 0
        at = bisect_left(self._pages, self._search_at, key=_first_offset)
        if at < len(self._pages):
            self._search_at = _start(self._pages[at].runs[-1]) + 1
            self._prune_page(at, settlement)
            return True
        self._search_at = None
        return False

    def _prune_page(self, at: int, settlement: Settlement) -> None:
        page = self._pages[at]
        runs = [run for run in page.runs if _is_unsettled(run, settlement)]
        heap = [run for run in page.heap if _is_unsettled(run, settlement)]
        self._run_count -= len(page.runs) - len(runs)
        self._armed_count -= len(page.heap) - len(heap)
        heapq.heapify(heap)
        page.runs, page.heap = runs, heap
        if heap:
            self._push_soonest(page)
        if not runs:
            del self._pages[at]

    def _close(self) -> None:
        """Move the open run to the other runs; it cannot grow any more."""
        assert self._open is not None, "no run is open"
        deadline_ms, start, end = self._open
        while start < end:
            stop = min(end, start + _COUNT_MAX)
            if not self._pages or len(self._pages[-1].runs) >= PAGE_RUNS:
                self._pages.append(_Page())
            run = _run(deadline_ms, start, stop)
            self._pages[-1].runs.append(run)
            self._run_count += 1
            self._arm(self._pages[-1], run)
            start = stop
        self._open = None

    def _arm(self, page: _Page, run: _Run) -> None:
        heapq.heappush(page.heap, run)
        self._armed_count += 1
        if page.heap[0] is run:
            self._push_soonest(page)

    def _push_soonest(self, page: _Page) -> None:
        heapq.heappush(self._soonest, (page.heap[0], next(self._entries), page))
        if len(self._soonest) > 2 * len(self._pages) + _SPARE_ENTRIES:
            self._list_soonest()

    def _list_soonest(self) -> None:
        self._soonest = [
            (page.heap[0], next(self._entries), page) for page in self._pages if page.heap
        ]
        heapq.heapify(self._soonest)

    def _soonest_page(self) -> _Page | None:
        """Return the page with the next deadline, whose entry is the first one; None: no page."""
        while self._soonest:
            run, _, page = self._soonest[0]
            if page.heap and page.heap[0] == run:
                return page
            heapq.heappop(self._soonest)
        return None

    def _page_number(self, offset: int) -> int:
        """Return the index of the page that may have `offset`."""
        return max(bisect_right(self._pages, offset, key=_first_offset) - 1, 0)


def _first_offset(page: _Page) -> int:
    return _start(page.runs[0])


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
