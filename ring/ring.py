"""The disruptor ring: the newest window of a queue's messages, in preallocated slots.

One writer publishes; all others only read. The *sequence* of a slot is the *offset* of its message,
so one number means the same everywhere. The words are those of the LMAX disruptor:

    window_start                      cursor        window_start + capacity
         |                               |                    |
    -----+===============================+--------------------+-----> sequence
         |  published and held           |  may be claimed    | wrap point
         |        ^
         |        gating sequence: what lies below it may be overwritten

The ring never waits. If the slowest gate limits a claim, the ring returns a smaller number, and the
caller decides what to do. So a stalled reader never stalls the event loop. A
claim that spins or blocks would stop every connection.

Source: LMAX disruptor, technical paper, sections 3 and 4 (sequencing, batching effect).
"""

from __future__ import annotations

from ring.errors import SequenceNotHeldError
from ring.page_pool import PAGE_SLOTS, Page, PagePool
from ring.sizes import bytes_of, count_within

_RELEASE_STEP = 64
"""Slots that are released at a time when bytes, not slots, are short."""


class Ring:
    """A bounded window of messages by sequence. Not thread-safe: the event loop owns it.

    Args:
        capacity: Number of slots, a positive multiple of `PAGE_SLOTS`.
        capacity_bytes: Message bytes that the ring holds at most; a larger message is accepted when
            the ring is empty.
        pool: Pool that lends the pages.
        sequence: First sequence that will be claimed (a recovered log's end offset).
    """

    def __init__(
        self, capacity: int, capacity_bytes: int, pool: PagePool, sequence: int = 0
    ) -> None:
        if capacity < PAGE_SLOTS or capacity % PAGE_SLOTS:
            raise ValueError(f"capacity {capacity} is not a positive multiple of {PAGE_SLOTS}")
        self.capacity = capacity
        self.capacity_bytes = capacity_bytes
        self.held_bytes = 0
        self.window_start = sequence
        self.cursor = sequence
        self._pool = pool
        # Where page 0 begins: an empty ring has no page, and its next one begins at the cursor.
        self._first_sequence = sequence
        # The pages of the window and their bytes, by number: each holds `PAGE_SLOTS` sequences.
        self._pages: dict[int, Page] = {}
        self._page_bytes: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of messages in the ring."""
        return self.cursor - self.window_start

    @property
    def remaining_capacity(self) -> int:
        """Slots that can be claimed without overwriting anything."""
        return self.capacity - (self.cursor - self.window_start)

    @property
    def fill(self) -> float:
        """Used share of the slots or of the bytes, whichever is higher: 0.0 to 1.0 or more."""
        return max(
            (self.cursor - self.window_start) / self.capacity, self.held_bytes / self.capacity_bytes
        )

    @property
    def is_pool_over(self) -> bool:
        """Whether all rings of the pool together hold too many bytes."""
        return self._pool.is_over

    def try_claim(self, messages: list[bytes], gating_sequence: int) -> int:
        """Return how many of `messages`, from the first on, may be published now.

        The ring releases slots below `gating_sequence`, oldest first, as far as the claim needs
        them. While all rings of the pool together hold too much, a ring that must keep a message
        grants nothing until that is written or settled.

        Args:
            messages: Batch that is to be published.
            gating_sequence: Lowest sequence that must be kept.

        Returns:
            0 (the ring is full) to `len(messages)`.
        """
        if self.cursor > gating_sequence and self._pool.is_over:
            return 0
        count = len(messages)
        # Asked for each publish: without the call of `remaining_capacity`.
        if count > self.capacity - (self.cursor - self.window_start):
            self.release(min(gating_sequence, self.cursor + count - self.capacity))
            count = min(count, self.remaining_capacity)
        wanted_bytes = bytes_of(messages if count == len(messages) else messages[:count])
        if self.held_bytes + wanted_bytes <= self.capacity_bytes:
            return count
        while self.held_bytes + wanted_bytes > self.capacity_bytes and self.window_start < min(
            gating_sequence, self.cursor
        ):
            self.release(min(gating_sequence, self.window_start + _RELEASE_STEP))
        free_bytes = self.capacity_bytes - self.held_bytes
        fitting = min(count_within(messages, free_bytes), count)
        if fitting == 0 and count > 0 and len(self) == 0:
            return 1
        return fitting

    def publish(self, messages: list[bytes]) -> None:
        """Store claimed messages at the cursor and move it; the ring keeps references.

        Args:
            messages: At most as many messages as the last `try_claim` granted.
        """
        count = len(messages)
        assert count <= self.capacity - (self.cursor - self.window_start), (
            "published without a claim"
        )
        if not count:
            # Of a full ring.
            return
        number, at = divmod(self.cursor - self._first_sequence, PAGE_SLOTS)
        if at + count <= PAGE_SLOTS:
            added_bytes = self._fill_slots(number, at, messages)
        else:
            added_bytes = taken = 0
            while taken < count:
                part = messages[taken : taken + PAGE_SLOTS - at]
                added_bytes += self._fill_slots(number, at, part)
                taken += len(part)
                number, at = number + 1, 0
        self.cursor += count
        self.held_bytes += added_bytes
        self._pool.held_bytes += added_bytes

    def _fill_slots(self, number: int, at: int, messages: list[bytes]) -> int:
        """Put messages, at least one, into slots of one page; return their bytes."""
        end = at + len(messages)
        added_bytes = bytes_of(messages)
        page = self._pages.get(number)
        if page is None:
            # Only a first page may stay short: behind it there is a run of messages.
            page = self._pages[number] = self._pool.lend(PAGE_SLOTS if number else end)
            self._page_bytes[number] = added_bytes
        else:
            self._page_bytes[number] += added_bytes
            if end > len(page):
                self._pool.lengthen(page)
        page[at:end] = messages
        return added_bytes

    def holds(self, sequence: int) -> bool:
        """Return whether the ring holds the message of `sequence`."""
        return self.window_start <= sequence < self.cursor

    def read(self, start: int, end: int) -> list[bytes]:
        """Return the messages of `[start, end)`; the ring must hold all of them.

        Raises:
            SequenceNotHeldError: The ring does not hold a part of the range.
        """
        if start < self.window_start or end > self.cursor:
            missing = start if start < self.window_start else end - 1
            raise SequenceNotHeldError(missing, self.window_start, self.cursor)
        if start >= end:
            return []
        number, at = divmod(start - self._first_sequence, PAGE_SLOTS)
        # Slots of the window hold messages, none of them None.
        messages: list[bytes] = self._pages[number][at : at + end - start]  # type: ignore[assignment]
        start += len(messages)
        while start < end:
            number += 1
            page = self._pages[number]
            messages += page if end - start >= PAGE_SLOTS else page[: end - start]  # type: ignore[arg-type]
            start += PAGE_SLOTS
        return messages

    def release(self, end: int) -> None:
        """Release everything below `end`; whole pages return to the pool."""
        end = min(end, self.cursor)
        sequence = self.window_start
        freed_bytes = 0
        if end == self.cursor and len(self._pages) == 1:
            # All of it, in one page: as a lone message is released.
            number, page = self._pages.popitem()
            self._pool.put_back(page)
            freed_bytes = self._page_bytes.pop(number)
            sequence = end
        while sequence < end:
            number, at = divmod(sequence - self._first_sequence, PAGE_SLOTS)
            part = min(PAGE_SLOTS - at, end - sequence)
            sequence += part
            if at + part == PAGE_SLOTS or sequence == self.cursor:
                self._pool.put_back(self._pages.pop(number))
                freed_bytes += self._page_bytes.pop(number)
            else:
                freed_bytes += self._empty_slots(number, at, part)
        if sequence == self.cursor:
            self._first_sequence = sequence
        if sequence > self.window_start:
            self.window_start = sequence
            self.held_bytes -= freed_bytes
            self._pool.held_bytes -= freed_bytes

    def _empty_slots(self, number: int, at: int, count: int) -> int:
        """Release a part of a page; return its bytes."""
        page = self._pages[number]
        freed_bytes = bytes_of(page[at : at + count])  # type: ignore[arg-type]
        page[at : at + count] = [None] * count
        self._page_bytes[number] -= freed_bytes
        return freed_bytes
