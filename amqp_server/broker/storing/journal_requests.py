"""Encodes messages into flush requests: chunks of bounded size, with append times."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING

from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.storing.transaction_marks import Piece, TransactionMarks
from appendlog import LARGE_MESSAGE_BYTES, Append, FlushRequest, LargeChunk, encode_chunk
from appendlog.segments.append_clock import AppendClock
from ring.sizes import count_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amqp_server.base.time_slice import Stopwatch
    from appendlog import Chunk, Log
    from ring import Ring

REQUEST_BYTES_MAX = 4 * 1024 * 1024
"""Message bytes that one log hands to the flusher at a time."""
CHUNK_MESSAGES_MAX = 2048
"""Messages of a chunk: 2 ms at most, if each has a lifetime of its own."""
BATCH_MESSAGES_MAX = 1024
"""Messages with gaps between them that are read at a time: 1 ms at most."""
TRANSACTIONS_MESSAGES_MAX = 16_384
"""Messages of a request that holds transactions; it is encoded synchronously."""


class JournalRequests:
    """Encodes the messages that one queue has to write.

    Args:
        log: Log that the flusher writes the requests to.
        chunk_bytes_max: Most message bytes in a chunk; a larger message has a chunk of its own.
        stopwatch: Measures how long a request may be encoded.
    """

    def __init__(self, log: Log, chunk_bytes_max: int, stopwatch: Stopwatch = perf_counter) -> None:
        self._stopwatch = stopwatch
        self._log = log
        self._salt = log.identity.salt
        self._chunk_bytes_max = chunk_bytes_max
        self._clock = AppendClock(log.directory, log.last_timestamp_ns, log.time_ns)
        self._timestamp_ns = 0
        # Offsets that belong to transactions. Each of their chunks names its transaction and holds
        # nothing else. Only durable queues, whose offsets have no gaps, may have some.
        self._transactions: TransactionMarks | None = None
        self._taken: list[Piece] = []

    def make(
        self, ring: Ring, ranges: list[tuple[int, int]], *, sync: bool, settled_floor: int = 0
    ) -> FlushRequest:
        """Return a request for as many of the first messages of `ranges` as it may hold.

        It holds one chunk at least, and what else one slice of the event loop's time encodes.

        Args:
            ring: Ring that holds all the messages.
            ranges: Offset ranges, ascending, none empty; at least one.
            sync: Whether the messages must be on the disk when the request is done.
            settled_floor: Offset below which nothing reads the log.
        """
        self._timestamp_ns = self._clock.now_ns()
        self._taken = []
        if self._transactions:
            assert len(ranges) == 1, "a queue with transactions has gaps"
            chunks, end_offset = self._encode_transactions(self._transactions, ring, *ranges[0])
        elif len(ranges) == 1:
            chunks, end_offset = self._encode_run(ring, *ranges[0])
        else:
            chunks, end_offset = self._encode_with_gaps(ring, ranges)
        append = Append(chunks, end_offset, sync=sync, settled_floor=settled_floor)
        return FlushRequest(self._log, append)

    def mark_transaction(self, start: int, end: int, transaction_id: bytes) -> None:
        """Record that `[start, end)`, above all marks, belongs to a transaction."""
        if self._transactions is None:
            self._transactions = TransactionMarks()
        self._transactions.add(start, end, transaction_id)

    def restore_marks(self) -> None:
        """Restore the transaction marks of the last request: it failed and is encoded again."""
        if self._transactions is not None:
            self._transactions.put_back(self._taken)
            self._taken = []

    def forget_marks(self, end: int) -> None:
        """Forget the transaction marks below `end`: the log holds these messages."""
        if self._transactions is not None:
            self._transactions.forget(end)

    def _encode_run(self, ring: Ring, start: int, end: int) -> tuple[list[Chunk], int]:
        """Encode messages with consecutive offsets; return the chunks and their end.

        One chunk at a time is read from the ring. So the length, reference count and octets of a
        message are used while it is in the processor's cache.
        """
        chunks: list[Chunk] = []
        left_bytes = REQUEST_BYTES_MAX
        began_seconds = self._stopwatch()
        time_slice: TimeSlice | None = None
        while start < end and not (time_slice is not None and time_slice.is_over):
            bytes_max = min(self._chunk_bytes_max, left_bytes)
            stop = min(end, start + CHUNK_MESSAGES_MAX)
            if stop - start > 1:
                likely = max(bytes_max * len(ring) // max(ring.held_bytes, 1), 1)
                stop = min(stop, start + likely)
            messages = up_to(ring.read(start, stop), bytes_max)
            if chunks and len(messages[0]) > left_bytes:
                break
            chunk = self._encode(messages, range(start, start + len(messages)), b"")
            chunks.append(chunk)
            left_bytes = max(left_bytes - len(chunk), 0)
            start += len(messages)
            if start < end and time_slice is None:
                # Most requests are one chunk.
                time_slice = TimeSlice(stopwatch=self._stopwatch)
                time_slice.began_seconds = began_seconds
        return chunks, start

    def _encode_with_gaps(
        self, ring: Ring, ranges: list[tuple[int, int]]
    ) -> tuple[list[Chunk], int]:
        """Encode messages with gaps between them; return the chunks and their end."""
        chunks: list[Chunk] = []
        left_bytes = REQUEST_BYTES_MAX
        time_slice = TimeSlice(stopwatch=self._stopwatch)
        for messages, offsets in _batches(ring, ranges):
            ends_bytes = list(accumulate(map(len, messages)))
            for start, end in self._chunk_borders(ends_bytes, 0, len(messages)):
                left_bytes -= ends_bytes[end - 1] - (ends_bytes[start - 1] if start else 0)
                if chunks and (left_bytes < 0 or time_slice.is_over):
                    return chunks, offsets[start]
                chunks.append(self._encode(messages[start:end], offsets[start:end], b""))
        return chunks, ranges[-1][1]

    def _encode_transactions(
        self, transactions: TransactionMarks, ring: Ring, first_offset: int, end: int
    ) -> tuple[list[Chunk], int]:
        """Encode messages so that each chunk belongs to one transaction, or to none."""
        messages = ring.read(first_offset, min(end, first_offset + TRANSACTIONS_MESSAGES_MAX))
        ends_bytes = list(accumulate(map(len, messages)))
        count = max(bisect_right(ends_bytes, REQUEST_BYTES_MAX), 1)
        self._taken = transactions.pieces(first_offset, first_offset + count)
        chunks = [
            self._encode(
                messages[start:end],
                range(first_offset + start, first_offset + end),
                piece.transaction_id,
            )
            for piece in self._taken
            for start, end in self._chunk_borders(
                ends_bytes, piece.start - first_offset, piece.end - first_offset
            )
        ]
        return chunks, first_offset + count

    def _chunk_borders(
        self, ends_bytes: list[int], start: int, stop: int
    ) -> Iterator[tuple[int, int]]:
        start_bytes = ends_bytes[start - 1] if start else 0
        while start < stop:
            fitting = bisect_right(ends_bytes, start_bytes + self._chunk_bytes_max, start, stop)
            end = max(fitting, start + 1)
            yield start, end
            start, start_bytes = end, ends_bytes[end - 1]

    def _encode(
        self, messages: list[bytes], offsets: Sequence[int], transaction_id: bytes
    ) -> Chunk:
        base = offsets[0]
        salt = self._salt
        if len(messages) == 1 and len(messages[0]) >= LARGE_MESSAGE_BYTES:
            return LargeChunk(messages[0], base, self._timestamp_ns, salt, transaction_id)
        deltas = None if isinstance(offsets, range) else [offset - base for offset in offsets]
        return encode_chunk(messages, base, deltas, self._timestamp_ns, None, salt, transaction_id)


def _batches(ring: Ring, ranges: list[tuple[int, int]]) -> Iterator[tuple[list[bytes], list[int]]]:
    """Read messages with their offsets, `BATCH_MESSAGES_MAX` at a time."""
    messages: list[bytes] = []
    offsets: list[int] = []
    for start, end in ranges:
        while start < end:
            stop = min(end, start + BATCH_MESSAGES_MAX - len(messages))
            messages += ring.read(start, stop)
            offsets += range(start, stop)
            start = stop
            if len(messages) == BATCH_MESSAGES_MAX:
                yield messages, offsets
                messages, offsets = [], []
    if messages:
        yield messages, offsets


def up_to(messages: list[bytes], bytes_max: int) -> list[bytes]:
    """Return the longest head of `messages` within `bytes_max`, at least one message."""
    if len(messages) == 1:
        return messages
    fitting = max(count_within(messages, bytes_max), 1)
    return messages if fitting >= len(messages) else messages[:fitting]
