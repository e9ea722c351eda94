"""Messages that a queue has accepted but that have no slot in its ring yet.

The queue counts, reads, delivers and settles them by offset, like those in the ring. Only their
slots and records come later. Settled messages pass through the ring too: the offsets in a durable
queue's log have no gaps, and their publishers may wait for confirms.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from ring import PAGE_SLOTS

if TYPE_CHECKING:
    from ring import Ring


class OverflowBuffer:
    """Messages behind a full ring. It stays short, as the server does not read their publishers.

    It copies lists into pages of `PAGE_SLOTS` messages. Only the first and the last page may be
    shorter, so the page of an offset is found without a search.

    Attributes:
        count: How many messages wait.
    """

    def __init__(self) -> None:
        self._pages: deque[list[bytes]] = deque()
        self.count = 0

    def __len__(self) -> int:
        """Return how many messages wait."""
        return self.count

    def add(self, messages: list[bytes], start: int = 0) -> None:
        """Append `messages[start:]`; the buffer copies them and keeps no reference to the list."""
        self.count += len(messages) - start
        if self._pages and len(self._pages[-1]) < PAGE_SLOTS:
            page = self._pages[-1]
            stop = start + PAGE_SLOTS - len(page)
            page += messages[start:stop]
            start = stop
        for at in range(start, len(messages), PAGE_SLOTS):
            self._pages.append(messages[at : at + PAGE_SLOTS])

    def read(self, start: int, end: int) -> list[bytes]:
        """Return the messages with indexes `[start, end)`, as far as there are any.

        O(messages returned + pages before them).
        """
        if not 0 <= start < min(end, self.count):
            return []
        first = len(self._pages[0])
        if start < first:
            number, at = 0, start
        else:
            number, at = divmod(start - first, PAGE_SLOTS)
            number += 1
        count = end - start
        messages: list[bytes] = []
        for page in islice(self._pages, number, None):
            messages += page[at : at + count - len(messages)]
            if len(messages) == count:
                break
            at = 0
        return messages

    def claim(self, ring: Ring, gating_sequence: int) -> None:
        """Move messages into free slots of the ring, at most a whole ring.

        Args:
            ring: Ring of the queue; its cursor is the offset of the first waiting message.
            gating_sequence: Lowest sequence that the ring must keep. It lies above the cursor when
                messages were settled before they had a slot. Then it is limited to the cursor:
                otherwise all waiting messages could pass through the ring in one turn of the loop.
        """
        gating_sequence = min(gating_sequence, ring.cursor)
        while self._pages:
            page = self._pages[0]
            claimed = ring.try_claim(page, gating_sequence)
            if claimed < len(page):
                ring.publish(page[:claimed])
                del page[:claimed]
                self.count -= claimed
                return
            ring.publish(page)
            self.count -= claimed
            self._pages.popleft()

    def clear(self) -> None:
        """Drop all messages."""
        self._pages.clear()
        self.count = 0
