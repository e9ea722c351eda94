"""Making flush requests: messages into chunks of bounded size, with append times."""

from __future__ import annotations

import time
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from appendlog import FlushRequest, encode_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from appendlog import Log
    from ring import Ring

REQUEST_BYTES_MAX = 4 * 1024 * 1024
"""Message bytes handed to the flusher for one log at a time."""


class JournalRequests:
    """Encodes what one queue has to write.

    Args:
        log: Where it will be written.
        chunk_bytes_max: Message bytes in a chunk at most; a larger message is alone in its own.
    """

    def __init__(self, log: Log, chunk_bytes_max: int) -> None:
        """Go on from the log's last append time."""
        self._log = log
        self._chunk_bytes_max = chunk_bytes_max
        self._timestamp_ns = log.last_timestamp_ns

    def make(self, ring: Ring, ranges: list[tuple[int, int]], *, sync: bool) -> FlushRequest:
        """Return a request for the first messages of `ranges`, as many as one may hold.

        Args:
            ring: Holds all of them.
            ranges: Ascending, at least one, none empty.
            sync: Whether they must be on the disk when the request is done.
        """
        messages: list[bytes] = []
        for start, end in ranges:
            messages += ring.read(start, end)
        ends_bytes = list(accumulate(map(len, messages)))
        count = max(bisect_right(ends_bytes, REQUEST_BYTES_MAX), 1)
        first_offset = ranges[0][0]
        # The offsets are written out only where there are gaps between them.
        offsets: Sequence[int] = range(first_offset, first_offset + count)
        if len(ranges) > 1:
            offsets = [offset for start, end in ranges for offset in range(start, end)]
        # Append time never goes back within a log, even when the clock does.
        self._timestamp_ns = max(time.time_ns(), self._timestamp_ns)
        chunks = [
            self._encode(messages[start:end], offsets[start:end])
            for start, end in self._chunk_borders(ends_bytes, count)
        ]
        return FlushRequest(self._log, chunks, offsets[count - 1] + 1, sync)

    def _chunk_borders(self, ends_bytes: list[int], count: int) -> Iterator[tuple[int, int]]:
        start = start_bytes = 0
        while start < count:
            fitting = bisect_right(ends_bytes, start_bytes + self._chunk_bytes_max, start, count)
            end = max(fitting, start + 1)
            yield start, end
            start, start_bytes = end, ends_bytes[end - 1]

    def _encode(self, messages: list[bytes], offsets: Sequence[int]) -> bytes:
        base = offsets[0]
        deltas = None if isinstance(offsets, range) else [offset - base for offset in offsets]
        salt = self._log.identity.salt
        return encode_chunk(messages, base, deltas, self._timestamp_ns, None, salt)


def up_to(messages: list[bytes], bytes_max: int) -> list[bytes]:
    """Return the longest head of `messages` within `bytes_max`, at least one message."""
    if sum(map(len, messages)) <= bytes_max:
        return messages
    fitting = bisect_right(list(accumulate(map(len, messages))), bytes_max)
    return messages[: max(fitting, 1)]
