"""Records that were given their offsets and are on their way into chunks."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from appendlog.layout.format import U32_MAX
from appendlog.layout.records import encode_chunk, encode_payloads

_PARTS_OF_A_CHUNK: Final = 4
"""Payloads of less than this part of a chunk share one with their neighbours."""


class Batch:
    """The records behind what was written of one log, in order. Not thread-safe.

    Args:
        salt: Of the log.
        next_offset: Of the first record.
        chunk_bytes: A chunk is closed when its messages have this many bytes.

    Attributes:
        next_offset: The offset that the next record gets.
        size_bytes: Of all messages that were not taken yet.
    """

    __slots__ = (
        "_chunk_bytes",
        "_chunk_bytes_max",
        "_chunk_time_ns",
        "_chunks",
        "_deltas_ns",
        "_messages",
        "_salt",
        "next_offset",
        "size_bytes",
    )

    def __init__(self, salt: int, next_offset: int, chunk_bytes: int) -> None:
        self._salt = salt
        self._chunk_bytes_max = chunk_bytes
        self.next_offset = next_offset
        self.size_bytes = 0
        self._chunks: list[bytes] = []
        self._messages: list[bytes] = []
        self._deltas_ns: list[int] = []
        self._chunk_time_ns = 0
        self._chunk_bytes = 0

    def add(self, message: bytes, timestamp_ns: int) -> None:
        """Take one message in; a chunk begins where times step back."""
        messages = self._messages
        if not messages:
            self._chunk_time_ns = timestamp_ns
        elif not 0 <= timestamp_ns - self._chunk_time_ns <= U32_MAX:
            # A record's time has 4.29 seconds of room in its chunk.
            self._close_chunk()
            messages = self._messages
            self._chunk_time_ns = timestamp_ns
        messages.append(message)
        self._deltas_ns.append(timestamp_ns - self._chunk_time_ns)
        self.next_offset += 1
        self.size_bytes += len(message)
        self._chunk_bytes += len(message)
        if self._chunk_bytes >= self._chunk_bytes_max:
            self._close_chunk()

    def extend(self, messages: list[bytes], size_bytes: int, timestamp_ns: int) -> None:
        """Take messages in that have one time.

        Args:
            messages: At least one; kept.
            size_bytes: Of all of them.
            timestamp_ns: Not less than that of the message before.
        """
        if self._chunk_bytes + size_bytes > self._chunk_bytes_max:
            self._close_chunk()
        if self._messages and not 0 <= timestamp_ns - self._chunk_time_ns <= U32_MAX:
            self._close_chunk()
        for start, stop, part_bytes in self._parts(messages, 0, size_bytes):
            self._fill(messages[start:stop], part_bytes, timestamp_ns)

    def extend_payloads(
        self, payloads: list[bytes], prefix: bytes, size_bytes: int, timestamp_ns: int
    ) -> None:
        """Take messages in that begin alike; as `extend`, without an object for each if they fill.

        Args:
            payloads: At least one.
            prefix: What stands before each of them.
            size_bytes: Of all messages, prefixes included.
            timestamp_ns: Not less than that of the message before.

        Raises:
            TypeError: A payload is not bytes; nothing was taken in.
        """
        if size_bytes < self._chunk_bytes_max // _PARTS_OF_A_CHUNK:
            messages = [prefix + payload for payload in payloads]
            self.extend(messages, size_bytes, timestamp_ns)
            return
        self._close_chunk()
        chunks, offset = [], self.next_offset
        for start, stop, _ in self._parts(payloads, len(prefix), size_bytes):
            part = payloads if stop - start == len(payloads) else payloads[start:stop]
            chunks.append(encode_payloads(part, prefix, offset, timestamp_ns, self._salt))
            offset += len(part)
        self._chunks += chunks
        self.next_offset = offset
        self.size_bytes += size_bytes

    def take(self) -> tuple[list[bytes], int]:
        """Return the chunks of all records so far and the offset behind them; forget them."""
        self._close_chunk()
        chunks, self._chunks = self._chunks, []
        self.size_bytes = 0
        return chunks, self.next_offset

    def _parts(
        self, octets: list[bytes], more_bytes: int, size_bytes: int
    ) -> Iterator[tuple[int, int, int]]:
        """Cut into parts of a chunk each: where it starts and stops, and how long it is."""
        if size_bytes <= self._chunk_bytes_max:
            yield 0, len(octets), size_bytes
            return
        start = start_bytes = 0
        for stop, end_bytes in enumerate(accumulate(len(each) + more_bytes for each in octets), 1):
            if end_bytes - start_bytes >= self._chunk_bytes_max or stop == len(octets):
                yield start, stop, end_bytes - start_bytes
                start, start_bytes = stop, end_bytes

    def _fill(self, messages: list[bytes], size_bytes: int, timestamp_ns: int) -> None:
        if not self._messages:
            self._chunk_time_ns = timestamp_ns
        delta_ns = timestamp_ns - self._chunk_time_ns
        self._messages += messages
        self._deltas_ns += [delta_ns] * len(messages)
        self.next_offset += len(messages)
        self.size_bytes += size_bytes
        self._chunk_bytes += size_bytes
        if self._chunk_bytes >= self._chunk_bytes_max:
            self._close_chunk()

    def _close_chunk(self) -> None:
        messages = self._messages
        if not messages:
            return
        has_one_time = not self._deltas_ns[-1]
        self._chunks.append(
            encode_chunk(
                messages,
                self.next_offset - len(messages),
                None,
                self._chunk_time_ns,
                None if has_one_time else self._deltas_ns,
                self._salt,
            )
        )
        self._messages = []
        self._deltas_ns = []
        self._chunk_bytes = 0
