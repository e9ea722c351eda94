"""Loads the attributes of messages that a start found in a log, a part at a time.

A log stores append times by the time of day. `AppendTimes` converts them to the monotonic clock of
the deadlines, which nothing can set, and never to a time in the future. So a message whose time
stamp came from a clock that was ahead lives no longer than a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amqp_server.base.clock import Clock
    from amqp_server.broker.rules.message_attributes import MessageAttributes
    from appendlog import Log, ReadResult

READ_BYTES = 1024 * 1024
READ_RECORDS = 16_384
"""Most bytes and records that one call reads from the log."""


class UnloadedAttributes:
    """Reads the attributes that a queue's rules need of recovered messages, one call at a time.

    Segments whose summary shows that no attribute is needed are not read.

    Args:
        log: Log of the queue.
        attributes: Attributes to fill, empty and starting at the first of the offsets. They
            belong to the caller again when everything is read.
        ranges: Unsettled offsets, ascending; none above the log's end.
        clock: Time that the messages' deadlines go by.
    """

    def __init__(
        self,
        log: Log,
        attributes: MessageAttributes,
        ranges: Sequence[tuple[int, int]],
        clock: Clock,
    ) -> None:
        self.attributes = attributes
        self._clock = clock
        self._log = log
        self._ranges = list(_needed(log, attributes, ranges))
        self._at = 0
        self._offset = 0

    def read_some(self) -> bool:
        """Read the next part; return whether there is more. Blocks: call it in a worker.

        Raises:
            LogError: The log cannot be read now; the next call tries the same part again.
        """
        if self._at == len(self._ranges):
            return False
        offset = max(self._offset, self._ranges[self._at][0])
        result = self._log.read(offset, READ_BYTES, READ_RECORDS)
        for start, messages, since_ms in self._runs(result):
            self.attributes.record(start, messages, messages[0][0], since_ms)
        self._offset = result.next_offset
        self._go_to(self._offset)
        return self._at < len(self._ranges)

    def _runs(self, result: ReadResult) -> Iterator[tuple[int, list[bytes], int]]:
        """Yield runs with equal flags and times, as (start, messages, append time)."""
        start, run, run_ms = 0, list[bytes](), 0
        times = AppendTimes(self._clock)
        for offset, message, timestamp_ns in zip(
            result.offsets, result.messages, result.timestamps_ns, strict=True
        ):
            if not self._go_to(offset):
                continue
            time_ms = times.since_ms(timestamp_ns)
            if run and (offset != start + len(run) or message[0] != run[0][0] or time_ms != run_ms):
                yield start, run, run_ms
                run = []
            if not run:
                start, run_ms = offset, time_ms
            run.append(message)
        if run:
            yield start, run, run_ms

    def _go_to(self, offset: int) -> bool:
        """Skip the ranges that end before an offset; return whether the next one contains it."""
        ranges = self._ranges
        while self._at < len(ranges) and ranges[self._at][1] <= offset:
            self._at += 1
        return self._at < len(ranges) and ranges[self._at][0] <= offset


def _needed(
    log: Log, attributes: MessageAttributes, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the parts of `ranges` in segments that must be read."""
    spans = [
        (summary.first_offset, summary.end_offset)
        for summary in log.summaries()
        if attributes.needs_segment(summary)
    ]
    at = 0
    for start, stop in ranges:
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        for low, high in spans[at:]:
            if low >= stop:
                break
            if max(low, start) < min(high, stop):
                yield max(low, start), min(high, stop)


class AppendTimes:
    """Converts append times to monotonic ones, by the state of both at its creation.

    Args:
        clock: Source of both.
    """

    __slots__ = ("_ahead_ms", "_now_ms")

    def __init__(self, clock: Clock) -> None:
        self._now_ms = clock.monotonic_ms()
        self._ahead_ms = clock.time_ns() // 1_000_000 - self._now_ms

    def since_ms(self, timestamp_ns: int) -> int:
        """Return when a message was appended, in monotonic milliseconds; now at the latest.

        It may be negative: a recovered message may be older than the clock's zero.

        Args:
            timestamp_ns: Append time in nanoseconds since 1970 UTC.
        """
        return min(timestamp_ns // 1_000_000 - self._ahead_ms, self._now_ms)
