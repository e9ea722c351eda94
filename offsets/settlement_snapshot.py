"""Settled offsets of one queue at one moment, for another thread to read and encode.

It shares the bitmaps of its settlement, which are integers and never change.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Final

from offsets.bit_pages import PAGE_FULL, PAGE_LOW, PAGE_OFFSETS, PAGE_SHIFT, bit_runs

_SORTED_TOGETHER: Final = 8192
"""Number of page numbers sorted at once: a sort holds the GIL."""


@dataclass(frozen=True, slots=True)
class SettlementSnapshot:
    """Settled offsets of one queue, clipped. Made by `Settlement.snapshot`; for any thread.

    Attributes:
        ack_floor: Offset, exclusive, below which everything is settled; not above `end`.
        end: Offset, exclusive, at which the pages are clipped.
        pages: Bitmaps of partly settled pages at or above the floor, by page number.
        full_pages: Runs [first, end) of full pages, ascending; none in `pages`.
    """

    ack_floor: int
    end: int
    pages: Mapping[int, int]
    full_pages: Sequence[tuple[int, int]]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield the acked ranges above the floor, ascending, disjoint and not touching."""
        run_start = run_end = -1
        for start, end in self._pieces():
            if start == run_end:
                run_end = end
                continue
            if run_end >= 0:
                yield run_start, run_end
            run_start, run_end = start, end
        if run_end >= 0:
            yield run_start, run_end

    def settled_count(self, start: int, end: int) -> int:
        """Return how many offsets of `[start, end)` are settled. O(pages in it + runs of pages)."""
        if end <= start:
            return 0
        part = self._part(start, end)
        count = max(min(end, self.ack_floor) - start, 0)
        mask = PAGE_FULL >> (start & PAGE_LOW) << (start & PAGE_LOW)
        for first, page_end, bits in part._clipped_pages():
            if first == start >> PAGE_SHIFT:
                count += (bits & mask).bit_count()
                first += 1
            count += (page_end - first) * bits.bit_count()
        return count

    def live_ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the unsettled parts of `[start, end)`, ascending, disjoint and not touching."""
        live: list[tuple[int, int]] = []
        position = max(start, self.ack_floor)
        for run_start, run_end in self._part(start, end).ranges():
            if position < run_start:
                live.append((position, run_start))
            position = max(position, run_end)
        if position < end:
            live.append((position, end))
        return live

    def _part(self, start: int, end: int) -> "SettlementSnapshot":
        """Return a snapshot of the pages of `[start, end)`, clipped only at its end."""
        first, last = start >> PAGE_SHIFT, ((end - 1) >> PAGE_SHIFT) + 1
        if last - first < len(self.pages):
            pages = {page: self.pages[page] for page in range(first, last) if page in self.pages}
        else:
            pages = {page: bits for page, bits in self.pages.items() if first <= page < last}
        runs = [
            (max(run_first, first), min(run_end, last))
            for run_first, run_end in self.full_pages
            if run_first < last and first < run_end
        ]
        return SettlementSnapshot(self.ack_floor, min(self.end, end), pages, runs)

    def measure(self) -> tuple[int, int]:
        """Return the number of acked ranges, and the end of the last one (the floor if none)."""
        count = 0
        end = self.ack_floor
        for first, page_end, bits in self._clipped_pages():
            count += (bits & ~(bits << 1)).bit_count() if bits != PAGE_FULL else 1
            offset = first << PAGE_SHIFT
            if bits & 1 and offset == end:
                # It continues the range before it.
                count -= 1
            end = (page_end << PAGE_SHIFT) - PAGE_OFFSETS + bits.bit_length()
        return count, end

    def bitmap(self, end: int) -> bytes:
        """Return a bitmap of [ack_floor, end); bit i of byte b stands for ack_floor + 8 b + i.

        Args:
            end: End of the last acked range, from `measure`.
        """
        floor = self.ack_floor
        octets = bytearray((end - floor + 7) // 8 + PAGE_OFFSETS // 8 + 1)
        for first, page_end, bits in self._clipped_pages():
            for page in range(first, page_end):
                place = (page << PAGE_SHIFT) - floor
                if place < 0:
                    # The part of a page below the floor has no bits.
                    self._put(octets, 0, bits >> -place)
                else:
                    self._put(octets, place, bits)
        del octets[(end - floor + 7) // 8 :]
        return bytes(octets)

    @staticmethod
    def _put(octets: bytearray, place: int, bits: int) -> None:
        at, shift = divmod(place, 8)
        shifted = (bits << shift).to_bytes(PAGE_OFFSETS // 8 + 1, "little")
        # The page before may have ended within this byte.
        octets[at] |= shifted[0]
        octets[at + 1 : at + len(shifted)] = shifted[1:]

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield settled pieces, ascending, cut at page borders."""
        for first, page_end, bits in self._clipped_pages():
            if bits == PAGE_FULL:
                yield first << PAGE_SHIFT, page_end << PAGE_SHIFT
            else:
                yield from bit_runs(bits, first << PAGE_SHIFT)

    def _clipped_pages(self) -> Iterator[tuple[int, int, int]]:
        """Yield runs of pages and the bits of each: of one page, or full ones; none is empty."""
        last, low = self.end >> PAGE_SHIFT, self.end & PAGE_LOW
        for first, page_end, bits in self._all_pages():
            if page_end <= last:
                yield first, page_end, bits
                continue
            if first < last:
                yield first, last, bits
            clipped = bits & ((1 << low) - 1) if first <= last else 0
            if clipped:
                yield last, last + 1, clipped
            return

    def _all_pages(self) -> Iterator[tuple[int, int, int]]:
        if len(self.pages) + len(self.full_pages) <= _SORTED_TOGETHER:
            pages = [(page, page + 1, bits) for page, bits in self.pages.items()]
            return iter(
                sorted([*pages, *((first, end, PAGE_FULL) for first, end in self.full_pages)])
            )
        numbers = list(self.pages)
        parts = [
            sorted(numbers[at : at + _SORTED_TOGETHER])
            for at in range(0, len(numbers), _SORTED_TOGETHER)
        ]
        partial = ((page, page + 1, self.pages[page]) for page in merge(*parts))
        return merge(partial, ((first, end, PAGE_FULL) for first, end in self.full_pages))
