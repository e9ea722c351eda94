"""Attributes of unsettled messages that a queue's rules need: deadline, priority and size.

A message may have left the ring long before a rule needs these numbers, so they stay in memory, in
arrays and runs. A queue keeps only what its own rules need; a plain queue keeps nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.orders.offset_array import OffsetArray
from amqp_server.broker.rules.deadlines import Deadlines
from appendlog.layout.message import (
    HAS_EXPIRATION,
    HAS_PRIORITY,
    body_position,
    properties_position,
)
from appendlog.layout.records import priority_and_expiration

if TYPE_CHECKING:
    from amqp_server.broker.queue_settings import QueueSettings
    from appendlog import SegmentSummary


class MessageAttributes:
    """The attributes that one queue keeps.

    Args:
        settings: Settings that decide which attributes are needed.
        start: Offset of the first message that will be recorded.

    Attributes:
        deadlines: When the messages expire.
        priorities: 0 to 255, as published; None in a queue without priorities.
        sizes: Body octets; None in a queue without a limit in octets.
    """

    def __init__(self, settings: QueueSettings, start: int) -> None:
        self.deadlines = Deadlines()
        self.priorities = OffsetArray("B", start) if settings.max_priority is not None else None
        self.sizes = OffsetArray("I", start) if settings.max_length_bytes is not None else None
        self._ttl_ms = settings.message_ttl_ms
        # Lifetime of messages that were published before `_ttl_since_ms`.
        self._earlier_ttl_ms: int | None = None
        self._ttl_since_ms: int | None = None

    @property
    def is_needed(self) -> bool:
        """Whether every message must be recorded, not only one with an expiration."""
        return not (self.priorities is None and self.sizes is None and self._ttl_ms is None)

    def change_ttl(self, ttl_ms: int | None) -> None:
        """Change the lifetime of messages that are recorded from now on; None: they have none."""
        self._ttl_ms = ttl_ms

    def limit_ttl(self, since_ms: int, earlier_ttl_ms: int | None) -> None:
        """Give another lifetime to messages that were published before a time.

        Args:
            since_ms: Time from which on the lifetime of the settings counts, by the steady clock.
            earlier_ttl_ms: Lifetime of messages before it; None: they have none.
        """
        self._ttl_since_ms = since_ms
        self._earlier_ttl_ms = earlier_ttl_ms

    def begin_sizes(self, start: int, end: int) -> OffsetArray:
        """Note sizes from now on; those of `[start, end)` are 0 until the caller fills them in."""
        self.sizes = OffsetArray("I", start)
        self.sizes.fill(end)
        return self.sizes

    def record(self, start: int, messages: list[bytes], flags: int, now_ms: int) -> None:
        """Note messages with consecutive offsets from `start` on, published at `now_ms`.

        Args:
            start: First offset, above all recorded ones; offsets between hold no message.
            messages: Messages to record.
            flags: Flags octet that all the messages have; `HAS_HEADERS` may differ.
            now_ms: Time by the steady clock, in milliseconds.
        """
        if self.priorities is not None:
            self.priorities.fill(start)
            known = flags & HAS_PRIORITY
            self.priorities.extend(map(_priority, messages) if known else bytes(len(messages)))
        if self.sizes is not None:
            self.sizes.fill(start)
            self.sizes.extend(map(body_bytes, messages))
        ttl_ms = self._ttl_ms
        if self._ttl_since_ms is not None and now_ms < self._ttl_since_ms:
            ttl_ms = self._earlier_ttl_ms
        if flags & HAS_EXPIRATION:
            for offset, message in enumerate(messages, start):
                lifetime_ms = _lifetime_ms(message, ttl_ms)
                if lifetime_ms is not None:
                    self.deadlines.add(offset, offset + 1, now_ms + lifetime_ms)
        elif ttl_ms is not None:
            self.deadlines.add(start, start + len(messages), now_ms + ttl_ms)

    def close_gap(self, end: int) -> None:
        """Note that no messages exist up to `end`, the offset of the next one."""
        for numbers in (self.priorities, self.sizes):
            if numbers is not None:
                numbers.fill(end)

    def put_before(self, older: MessageAttributes) -> None:
        """Insert the attributes of lower offsets; the caller must not use `older` again."""
        self.deadlines.put_before(older.deadlines)
        for numbers, before in (
            (self.priorities, older.priorities),
            (self.sizes, older.sizes),
        ):
            if numbers is not None and before is not None:
                numbers.put_before(before)

    def needs_segment(self, summary: SegmentSummary) -> bool:
        """Return whether a segment must be read, judging by its summary."""
        if self.sizes is not None or self._ttl_ms is not None or summary.max_expiry_ns:
            return True
        # A message without a priority has 0 too.
        return self.priorities is not None and summary.priority_bitmap > 1

    def forget(self, floor: int) -> None:
        """Discard the arrays below `floor`."""
        for numbers in (self.priorities, self.sizes):
            if numbers is not None:
                numbers.forget(floor)


def body_bytes(message: bytes) -> int:
    """Return the number of octets of a message's body."""
    return len(message) - body_position(message)


def _lifetime_ms(message: bytes, ttl_ms: int | None) -> int | None:
    """Return a message's lifetime: the shorter of its own and the queue's."""
    _, expiration_ms = _priority_and_expiration(message)
    if expiration_ms < 0:
        return ttl_ms
    return expiration_ms if ttl_ms is None else min(expiration_ms, ttl_ms)


def _priority(message: bytes) -> int:
    return max(_priority_and_expiration(message)[0], 0)


def _priority_and_expiration(message: bytes) -> tuple[int, int]:
    return priority_and_expiration(message, properties_position(message), body_position(message))
