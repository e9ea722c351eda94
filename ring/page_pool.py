"""Preallocated pages of slots, shared by all rings of a server."""

from __future__ import annotations

PAGE_SLOTS = 128
"""Slots in a page.

A publish to 10,000 queues takes a page for each. Python's garbage collector walks all slots of
thousands of new pages in one piece, on the thread of the event loop, so a page must be short.
"""

Page = list[bytes | None]

_EMPTY: Page = [None] * PAGE_SLOTS


class PagePool:
    """Lends pages to rings and counts the bytes that all of them hold.

    An idle ring holds no page, so ten thousand idle queues cost no memory here, while a busy one
    has its full capacity. The pool keeps returned pages for the next ring, up to `spare_pages_max`.

    Args:
        bytes_max: Message bytes that all rings together should hold. The pool only counts; the
            owner of the rings must make room when `is_over` is true.
        spare_pages_max: Free pages that the pool keeps instead of returning them to the allocator.
    """

    def __init__(self, bytes_max: int, spare_pages_max: int = 2048) -> None:
        self.bytes_max = bytes_max
        self.spare_pages_max = spare_pages_max
        self.held_bytes = 0
        self.lent_pages = 0
        self._spare: list[Page] = []

    @property
    def is_over(self) -> bool:
        """Whether the rings together hold more than `bytes_max` bytes."""
        return self.held_bytes > self.bytes_max

    def lend(self) -> Page:
        """Return a page of `PAGE_SLOTS` empty slots; the caller owns it until `put_back`."""
        self.lent_pages += 1
        return self._spare.pop() if self._spare else [None] * PAGE_SLOTS

    def put_back(self, page: Page) -> None:
        """Add a page whose messages its ring has released to the spare pages; empties it."""
        self.lent_pages -= 1
        if len(self._spare) < self.spare_pages_max:
            page[:] = _EMPTY
            self._spare.append(page)
