"""Records that have an offset, but are not in the log's files yet.

A batch keeps its records until `remove_written` drops them. Each change is one operation of a
list. So an exception of a signal handler, which can occur between any two operations, finds a
record in the batch with its offset, or not in it at all.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from appendlog.layout.format import U32_MAX
from appendlog.layout.records import encode_chunk, encode_payloads

_PARTS_OF_A_CHUNK: Final = 4
"""Payloads smaller than this part of a chunk share one with their neighbours."""


class _Part:
    """A chunk, or the records of the next chunk.

    Attributes:
        base_offset: Offset of the first record.
        chunk: The encoded chunk; empty while records are added.
        count: Number of records in `chunk`.
        records: While records are added: message, time, message, time, ...
        size_bytes: Size of the messages in `records`. An interrupted append may leave it too low.
    """

    __slots__ = ("base_offset", "chunk", "count", "records", "size_bytes")

    def __init__(self, base_offset: int, chunk: bytes = b"", count: int = 0) -> None:
        self.base_offset = base_offset
        self.chunk = chunk
        self.count = count
        self.records: list[Any] = []
        self.size_bytes = 0

    @property
    def end_offset(self) -> int:
        return self.base_offset + (self.count or len(self.records) // 2)


class Batch:
    """Records of one log that are not written yet, in order. Not thread-safe.

    Args:
        salt: Salt of the log.
        next_offset: Offset of the first record.
        chunk_bytes: Size of messages at which a chunk is closed, in bytes.

    Attributes:
        size_bytes: Size of the messages added since the last call of `chunks`.
    """

    __slots__ = ("_chunk_bytes_max", "_parts", "_salt", "size_bytes")

    def __init__(self, salt: int, next_offset: int, chunk_bytes: int) -> None:
        self._salt = salt
        self._chunk_bytes_max = chunk_bytes
        # Chunks, and as the last element the part that records are added to; it always exists.
        self._parts = [_Part(next_offset)]
        self.size_bytes = 0

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._parts[-1].end_offset

    def add(self, message: bytes, timestamp_ns: int) -> int:
        """Add a message and return its offset; a chunk begins where times step back."""
        part = self._parts[-1]
        records = part.records
        if records and not 0 <= timestamp_ns - records[1] <= U32_MAX:
            # The times of a chunk span at most 4.29 seconds.
            self._close_chunk()
            part = self._parts[-1]
            records = part.records
        offset = part.base_offset + len(records) // 2
        records.extend((message, timestamp_ns))
        part.size_bytes += len(message)
        self.size_bytes += len(message)
        if part.size_bytes >= self._chunk_bytes_max:
            self._close_chunk()
        return offset

    def extend(self, messages: list[bytes], size_bytes: int, timestamp_ns: int) -> None:
        """Add messages with the same time: all of them, or none.

        Args:
            messages: At least one message; not copied.
            size_bytes: Size of all messages.
            timestamp_ns: Append time, not below that of the message before.
        """
        part = self._parts[-1]
        records = part.records
        if records and (
            part.size_bytes + size_bytes > self._chunk_bytes_max
            or not 0 <= timestamp_ns - records[1] <= U32_MAX
        ):
            self._close_chunk()
            part = self._parts[-1]
        if size_bytes > self._chunk_bytes_max:
            offset = part.base_offset
            chunks = []
            for start, stop in self._cuts(messages, 0, size_bytes):
                chunk = self._encode(messages[start:stop], offset + start, timestamp_ns)
                chunks.append(_Part(offset + start, chunk, stop - start))
            self._add_chunks(chunks)
        else:
            added: list[Any] = [timestamp_ns] * (2 * len(messages))
            added[::2] = messages
            part.records.extend(added)
            part.size_bytes += size_bytes
        self.size_bytes += size_bytes
        if self._parts[-1].size_bytes >= self._chunk_bytes_max:
            self._close_chunk()

    def extend_payloads(
        self, payloads: list[bytes], prefix: bytes, size_bytes: int, timestamp_ns: int
    ) -> None:
        """Add messages with a common prefix, like `extend`; full chunks need no object for each.

        Args:
            payloads: At least one payload.
            prefix: Octets before each payload.
            size_bytes: Size of all messages, with prefixes.
            timestamp_ns: Append time, not below that of the message before.

        Raises:
            TypeError: A payload is not bytes; nothing was added.
        """
        if size_bytes < self._chunk_bytes_max // _PARTS_OF_A_CHUNK:
            messages = [prefix + payload for payload in payloads]
            self.extend(messages, size_bytes, timestamp_ns)
            return
        self._close_chunk()
        offset = self.next_offset
        chunks = []
        for start, stop in self._cuts(payloads, len(prefix), size_bytes):
            part = payloads if stop - start == len(payloads) else payloads[start:stop]
            chunk = encode_payloads(part, prefix, offset + start, timestamp_ns, self._salt)
            chunks.append(_Part(offset + start, chunk, stop - start))
        self._add_chunks(chunks)
        self.size_bytes += size_bytes

    def chunks(self) -> tuple[list[bytes], int]:
        """Return the chunks of all records so far and the end offset; the batch keeps them."""
        self._close_chunk()
        self.size_bytes = 0
        return [part.chunk for part in self._parts[:-1]], self.next_offset

    def remove_written(self, end_offset: int) -> None:
        """Remove the chunks below an offset: they are in the log's files."""
        count = 0
        for part in self._parts[:-1]:
            if part.end_offset > end_offset:
                break
            count += 1
        del self._parts[:count]

    def _cuts(
        self, octets: list[bytes], more_bytes: int, size_bytes: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the (start, stop) of the parts that make one chunk each."""
        if size_bytes <= self._chunk_bytes_max:
            yield 0, len(octets)
            return
        start = start_bytes = 0
        for stop, end_bytes in enumerate(accumulate(len(each) + more_bytes for each in octets), 1):
            if end_bytes - start_bytes >= self._chunk_bytes_max or stop == len(octets):
                yield start, stop
                start, start_bytes = stop, end_bytes

    def _add_chunks(self, chunks: list[_Part]) -> None:
        """Replace the last part with chunks of its records, and begin a new part."""
        self._parts[-1:] = [*chunks, _Part(chunks[-1].end_offset)]

    def _close_chunk(self) -> None:
        part = self._parts[-1]
        records = part.records
        if not records:
            return
        messages, times = records[::2], records[1::2]
        first_ns = times[0]
        deltas = None if times[-1] == first_ns else [time_ns - first_ns for time_ns in times]
        chunk = self._encode(messages, part.base_offset, first_ns, deltas)
        self._add_chunks([_Part(part.base_offset, chunk, len(messages))])

    def _encode(
        self,
        messages: list[bytes],
        base_offset: int,
        timestamp_ns: int,
        deltas_ns: list[int] | None = None,
    ) -> bytes:
        return encode_chunk(messages, base_offset, None, timestamp_ns, deltas_ns, self._salt)
