"""Preallocated pages of slots, shared by all rings of a server."""

from __future__ import annotations

PAGE_SLOTS = 1024
"""Slots in a page that is long, as all are but some first ones."""
SHORT_SLOTS = 128
"""Slots in a page that is short.

A publish to 10,000 queues takes a page for each. Python's garbage collector walks all slots of
thousands of new pages without a pause, on the thread of the event loop, so a page that holds few
messages must be short. A run of many messages needs long pages: each costs a few microseconds.
"""

Page = list[bytes | None]

_EMPTY_SHORT: Page = [None] * SHORT_SLOTS
_EMPTY: Page = [None] * PAGE_SLOTS
_MISSING: Page = [None] * (PAGE_SLOTS - SHORT_SLOTS)


class PagePool:
    """Lends pages to rings and counts the bytes that all of them hold.

    An idle ring holds no page, so ten thousand idle queues cost no memory here, while a busy one
    has its full capacity. The pool keeps returned pages for the next ring, up to `spare_slots_max`.

    Args:
        bytes_max: Message bytes that all rings together should hold. The pool only counts; the
            owner of the rings must make room when `is_over` is true.
        spare_slots_max: Slots of free pages that the pool keeps instead of returning them to the
            allocator.
    """

    def __init__(self, bytes_max: int, spare_slots_max: int = 262_144) -> None:
        self.bytes_max = bytes_max
        self.spare_slots_max = spare_slots_max
        self.held_bytes = 0
        self.lent_pages = 0
        self._spare_slots = 0
        self._spare: list[Page] = []
        self._spare_short: list[Page] = []

    @property
    def is_over(self) -> bool:
        """Whether the rings together hold more than `bytes_max` bytes."""
        return self.held_bytes > self.bytes_max

    def lend(self, slots: int) -> Page:
        """Return a page of empty slots; the caller owns it until `put_back`.

        Args:
            slots: Slots that will be used, 1 to `PAGE_SLOTS`: the page has as many, or more.
        """
        self.lent_pages += 1
        if slots <= SHORT_SLOTS:
            spare, length = self._spare_short, SHORT_SLOTS
        else:
            spare, length = self._spare, PAGE_SLOTS
        if not spare:
            return [None] * length
        self._spare_slots -= length
        return spare.pop()

    def lengthen(self, page: Page) -> None:
        """Make a short page long; its slots stay where they are."""
        page += _MISSING

    def put_back(self, page: Page) -> None:
        """Add a page whose messages its ring has released to the spare pages; empties it."""
        self.lent_pages -= 1
        length = len(page)
        if self._spare_slots + length <= self.spare_slots_max:
            self._spare_slots += length
            if length == SHORT_SLOTS:
                page[:] = _EMPTY_SHORT
                self._spare_short.append(page)
            else:
                page[:] = _EMPTY
                self._spare.append(page)
