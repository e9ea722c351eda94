"""Records that were given their offsets and are not in the log's files yet.

A batch keeps its records until `forget` says that they are written. Each of its changes happens
in one operation of a list, so an exception of a signal handler, which may be raised between any
two operations, finds a record in the batch with its offset, or not in it at all.
"""

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

from appendlog.layout.format import U32_MAX
from appendlog.layout.records import encode_chunk, encode_payloads

_PARTS_OF_A_CHUNK: Final = 4
"""Payloads of less than this part of a chunk share one with their neighbours."""


class _Part:
    """A chunk, or the records that will be the next one.

    Attributes:
        base_offset: Of the first record.
        chunk: Its octets; empty while records are added.
        count: Records in `chunk`.
        records: While records are added: message, time, message, time, ...
        size_bytes: Of the messages of `records`. An interrupted append may leave it too low.
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
    """The records behind what was written of one log, in order. Not thread-safe.

    Args:
        salt: Salt of the log, which its chunks carry.
        next_offset: Of the first record.
        chunk_bytes: A chunk is closed when its messages have this many bytes.

    Attributes:
        size_bytes: Messages that were added since `chunks` was last called.
    """

    __slots__ = ("_chunk_bytes_max", "_parts", "_salt", "size_bytes")

    def __init__(self, salt: int, next_offset: int, chunk_bytes: int) -> None:
        self._salt = salt
        self._chunk_bytes_max = chunk_bytes
        # Chunks, and at the end the part that records are added to: there is always one.
        self._parts = [_Part(next_offset)]
        self.size_bytes = 0

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._parts[-1].end_offset

    def add(self, message: bytes, timestamp_ns: int) -> int:
        """Take one message in and return its offset; a chunk begins where times step back."""
        part = self._parts[-1]
        records = part.records
        if records and not 0 <= timestamp_ns - records[1] <= U32_MAX:
            # A record's time has 4.29 seconds of room in its chunk.
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
        """Take messages in that have one time: all of them, or none.

        Args:
            messages: At least one; kept.
            size_bytes: Of all of them.
            timestamp_ns: Not less than that of the message before.
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
        offset = self.next_offset
        chunks = []
        for start, stop in self._cuts(payloads, len(prefix), size_bytes):
            part = payloads if stop - start == len(payloads) else payloads[start:stop]
            chunk = encode_payloads(part, prefix, offset + start, timestamp_ns, self._salt)
            chunks.append(_Part(offset + start, chunk, stop - start))
        self._add_chunks(chunks)
        self.size_bytes += size_bytes

    def chunks(self) -> tuple[list[bytes], int]:
        """Return the chunks of all records so far, and the offset behind them; they stay here."""
        self._close_chunk()
        self.size_bytes = 0
        return [part.chunk for part in self._parts[:-1]], self.next_offset

    def forget(self, end_offset: int) -> None:
        """Let go of the chunks below an offset: they are in the log's files."""
        count = 0
        for part in self._parts[:-1]:
            if part.end_offset > end_offset:
                break
            count += 1
        del self._parts[:count]

    def _cuts(
        self, octets: list[bytes], more_bytes: int, size_bytes: int
    ) -> Iterator[tuple[int, int]]:
        """Cut into parts of a chunk each: where it starts and stops."""
        if size_bytes <= self._chunk_bytes_max:
            yield 0, len(octets)
            return
        start = start_bytes = 0
        for stop, end_bytes in enumerate(accumulate(len(each) + more_bytes for each in octets), 1):
            if end_bytes - start_bytes >= self._chunk_bytes_max or stop == len(octets):
                yield start, stop
                start, start_bytes = stop, end_bytes

    def _add_chunks(self, chunks: list[_Part]) -> None:
        """Put chunks into the place of the last part, whose records they have."""
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
