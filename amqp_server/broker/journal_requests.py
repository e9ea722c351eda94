"""Making flush requests: messages into chunks of bounded size, with append times."""

from __future__ import annotations

import time
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

from appendlog import FlushRequest, encode_chunk

if TYPE_CHECKING:
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
        messages = up_to(messages, REQUEST_BYTES_MAX)
        first_offset = ranges[0][0]
        if len(ranges) == 1:
            chunks = self._encode(messages, first_offset, None)
            return FlushRequest(self._log, chunks, first_offset + len(messages), sync)
        offsets = [offset for start, end in ranges for offset in range(start, end)]
        chunks = self._encode(messages, first_offset, offsets)
        return FlushRequest(self._log, chunks, offsets[len(messages) - 1] + 1, sync)

    def _encode(
        self, messages: list[bytes], first_offset: int, offsets: list[int] | None
    ) -> list[bytes]:
        # Append time never goes back within a log, even when the clock does.
        self._timestamp_ns = max(time.time_ns(), self._timestamp_ns)
        chunks = []
        at = 0
        while at < len(messages):
            part = up_to(messages[at:] if at else messages, self._chunk_bytes_max)
            base, deltas = first_offset + at, None
            if offsets is not None:
                base = offsets[at]
                deltas = [offset - base for offset in offsets[at : at + len(part)]]
            chunks.append(
                encode_chunk(part, base, deltas, self._timestamp_ns, None, self._log.identity.salt)
            )
            at += len(part)
        return chunks


def up_to(messages: list[bytes], bytes_max: int) -> list[bytes]:
    """Return the longest head of `messages` within `bytes_max`, at least one message."""
    if sum(map(len, messages)) <= bytes_max:
        return messages
    fitting = bisect_right(list(accumulate(map(len, messages))), bytes_max)
    return messages[: max(fitting, 1)]
