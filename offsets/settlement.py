"""Settled offsets of one queue: the ack floor and the acked ranges above it.

Consumers acknowledge out of order, so the highest ack is not enough. Everything below the floor is
settled. Above it, settled offsets are in pages of 1,024 offsets, each a Python integer used as a
bitmap. A page that fills up moves from the bitmaps to a sorted list of runs of full pages.

The alternative is a sorted list of runs. With pages, a single random ack is a dictionary access and
an `or` of 128 bytes, never an insertion into a list of millions. Ten million acks in random order
cost about 2 bits for each offset between the floor and the highest ack; runs would cost 80 bytes
for each gap. One settle of a billion offsets is still one run. The worst case is a single ack per
page, about 250 bytes each.

The offset at the floor is never settled (otherwise the floor would be higher), and no bit below the
floor is ever set.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from offsets.bit_pages import (
    PAGE_FULL,
    PAGE_LOW,
    PAGE_OFFSETS,
    PAGE_SHIFT,
    bit_runs,
    trailing_ones,
)
from offsets.settlement_snapshot import SettlementSnapshot

_NO_PAGES: Final[dict[int, int]] = {}


class Settlement:
    """Set of settled offsets of one queue; it only grows.

    Not thread-safe: it belongs to the thread that owns the queue.

    Attributes:
        ack_floor: Lowest offset that is not settled; only the set raises it.
    """

    __slots__ = ("_above", "_full", "_pages", "ack_floor")

    def __init__(self, floor: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """Make a set that contains all offsets below `floor` and those in `ranges`.

        Args:
            floor: Ack floor, exclusive; >= 0.
            ranges: Further settled ranges [start, end), in any order, overlaps allowed: the acked
                ranges of a checkpoint.
        """
        assert floor >= 0
        self.ack_floor = floor
        self._above = 0
        self._pages: dict[int, int] = {}
        self._full = _PageRuns()
        for start, end in ranges:
            self.settle(start, end)

    @property
    def settled_above_floor(self) -> int:
        """Number of settled offsets above the floor."""
        return self._above

    @property
    def settled_count(self) -> int:
        """Number of settled offsets from 0 on."""
        return self.ack_floor + self.settled_above_floor

    def settle(self, start: int, end: int) -> int:
        """Mark [start, end) as settled; return how many offsets were not settled before.

        O(1) at the floor with nothing settled above it, and for a single offset. Otherwise O(n) in
        the pages of the range that are neither empty nor full.

        Args:
            start: First offset, inclusive, >= 0; may be below the floor.
            end: End offset, exclusive; at least `start`.

        Returns:
            Number of newly settled offsets, 0 to end - start.
        """
        assert 0 <= start <= end
        floor = self.ack_floor
        if start <= floor:
            if end <= floor:
                return 0
            if not self._above:
                self.ack_floor = end
                return end - floor
            newly = self._add(floor, end)
            self._above += newly
            self._advance()
            return newly
        if start == end:
            return 0
        newly = self._add(start, end)
        self._above += newly
        return newly

    def is_settled(self, offset: int) -> bool:
        """Return whether one offset is settled. O(log of the full runs)."""
        if offset < self.ack_floor:
            return True
        page = offset >> PAGE_SHIFT
        bits = self._pages.get(page)
        if bits is None:
            return page in self._full
        return bool(bits >> (offset & PAGE_LOW) & 1)

    def ranges(self, end: int | None = None) -> list[tuple[int, int]]:
        """Return the acked ranges above the floor, ascending, disjoint and not touching.

        Args:
            end: Offset, exclusive, at which to clip: the recovery point, for a checkpoint, which
                must never settle too much. None for all.

        Returns:
            Half-open ranges, a new list. O(pages + ranges).
        """
        return list(self._runs(self.ack_floor, end)) if self._above else []

    def snapshot(self, end: int) -> SettlementSnapshot:
        """Return the offsets settled below `end` at this moment, to be encoded in another thread.

        Bitmaps are shared, not copied: this takes some nanoseconds per page, whatever the number of
        acks.

        Args:
            end: Offset, exclusive, at which to clip: the recovery point, for a checkpoint.
        """
        if not self._above or end <= self.ack_floor:
            return SettlementSnapshot(min(self.ack_floor, end), end, _NO_PAGES, ())
        return SettlementSnapshot(
            self.ack_floor, end, self._pages.copy(), self._full.between(0, None)
        )

    def unsettled_ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the unsettled parts of [start, end), ascending, disjoint and not touching.

        Args:
            start: First offset, inclusive.
            end: End offset, exclusive; at least `start`.

        Returns:
            Half-open ranges, a new list. O(pages in the range + ranges in it).
        """
        unsettled: list[tuple[int, int]] = []
        position = max(start, self.ack_floor)
        # Most queues have nothing settled above the floor.
        for run_start, run_end in self._runs(position, end) if self._above else ():
            if run_start > position:
                unsettled.append((position, run_start))
            position = run_end
        if position < end:
            unsettled.append((position, end))
        return unsettled

    def _add(self, start: int, end: int) -> int:
        """Set the bits of [start, end), which begins at or above the floor."""
        first = start >> PAGE_SHIFT
        last = (end - 1) >> PAGE_SHIFT
        low = start & PAGE_LOW
        if first == last:
            return self._add_bits(first, ((1 << (end - start)) - 1) << low)
        newly = self._add_bits(first, PAGE_FULL >> low << low)
        newly += self._add_bits(last, (1 << (((end - 1) & PAGE_LOW) + 1)) - 1)
        if last - first > 1:
            newly += self._add_pages(first + 1, last)
        return newly

    def _add_bits(self, page: int, mask: int) -> int:
        bits = self._pages.get(page)
        if bits is None:
            if page in self._full:
                return 0
            bits = 0
        merged = bits | mask
        if merged == PAGE_FULL:
            self._pages.pop(page, None)
            self._full.add(page, page + 1)
        else:
            self._pages[page] = merged
        return (merged ^ bits).bit_count()

    def _add_pages(self, first: int, end: int) -> int:
        """Make the pages [first, end) full, and return how many bits were not set before."""
        already = 0
        for page in self._partial_pages(first, end):
            already += self._pages.pop(page).bit_count()
        return self._full.add(first, end) * PAGE_OFFSETS - already

    def _advance(self) -> None:
        """Move the floor past the settled offsets that follow it, and drop the pages below it."""
        before = floor = self.ack_floor
        while True:
            page = floor >> PAGE_SHIFT
            bits = self._pages.get(page)
            if bits is None:
                page_end = self._full.pop_first(page)
                if page_end is None:
                    break
                floor = page_end << PAGE_SHIFT
                continue
            low = floor & PAGE_LOW
            run_end = low + trailing_ones(bits >> low)
            floor += run_end - low
            left = bits >> run_end << run_end
            if left:
                self._pages[page] = left
            else:
                del self._pages[page]
            if run_end < PAGE_OFFSETS:
                break
        self.ack_floor = floor
        self._above -= floor - before

    def _runs(self, start: int, end: int | None) -> Iterator[tuple[int, int]]:
        """Yield the settled runs in [start, end), merged; `start` is not below the floor."""
        run_start = run_end = -1
        for piece_start, piece_end in self._pieces(start, end):
            clipped_start = max(piece_start, start)
            clipped_end = piece_end if end is None else min(piece_end, end)
            if clipped_start >= clipped_end:
                continue
            if clipped_start == run_end:
                run_end = clipped_end
                continue
            if run_end >= 0:
                yield run_start, run_end
            run_start, run_end = clipped_start, clipped_end
        if run_end >= 0:
            yield run_start, run_end

    def _pieces(self, start: int, end: int | None) -> Iterator[tuple[int, int]]:
        """Yield settled pieces, ascending, cut at page borders; may reach beyond [start, end)."""
        first = start >> PAGE_SHIFT
        last = None if end is None else (end + PAGE_LOW) >> PAGE_SHIFT
        full = iter(self._full.between(first, last))
        next_full = next(full, None)
        for page in self._partial_pages(first, last):
            while next_full is not None and next_full[0] < page:
                yield next_full[0] << PAGE_SHIFT, next_full[1] << PAGE_SHIFT
                next_full = next(full, None)
            offset = page << PAGE_SHIFT
            bits = self._pages[page]
            # A lookup of a few offsets must not iterate over the other runs of their page.
            if start > offset:
                bits = bits >> start - offset << start - offset
            if end is not None and end - offset < PAGE_OFFSETS:
                bits &= (1 << end - offset) - 1
            yield from bit_runs(bits, offset)
        while next_full is not None:
            yield next_full[0] << PAGE_SHIFT, next_full[1] << PAGE_SHIFT
            next_full = next(full, None)

    def _partial_pages(self, first: int, end: int | None) -> list[int]:
        """Return the numbers of the partial pages in [first, end), ascending."""
        pages = self._pages
        if end is not None and end - first <= len(pages):
            return [page for page in range(first, end) if page in pages]
        return sorted(page for page in pages if first <= page and (end is None or page < end))


class _PageRuns:
    """Sorted, disjoint, non-touching runs of page numbers; changed once per page, not per ack."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __contains__(self, page: int) -> bool:
        place = bisect_right(self._starts, page) - 1
        return place >= 0 and page < self._ends[place]

    def add(self, first: int, end: int) -> int:
        """Add the pages [first, end), and return how many of them were not in the set."""
        # One run replaces every run that overlaps or touches [first, end).
        low = bisect_left(self._ends, first)
        high = bisect_right(self._starts, end)
        old = self._count(low, high)
        if low < high:
            first = min(first, self._starts[low])
            end = max(end, self._ends[high - 1])
        self._starts[low:high] = [first]
        self._ends[low:high] = [end]
        return end - first - old

    def pop_first(self, page: int) -> int | None:
        """Remove the run that begins at `page` and return its end, or None if none does."""
        if not self._starts or self._starts[0] != page:
            return None
        del self._starts[0]
        return self._ends.pop(0)

    def between(self, first: int, end: int | None) -> list[tuple[int, int]]:
        """Return the runs that overlap [first, end), whole."""
        low = bisect_right(self._ends, first)
        high = len(self._starts) if end is None else bisect_left(self._starts, end)
        return list(zip(self._starts[low:high], self._ends[low:high], strict=True))

    def _count(self, low: int, high: int) -> int:
        return sum(self._ends[low:high]) - sum(self._starts[low:high])
