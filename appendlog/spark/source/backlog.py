"""Measures ranges of offsets in bytes of log, and finds the offset at a number of bytes.

It reads the sparse index and no messages; of the index only the part that is needed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from appendlog.reader import LogReader

_FIRST_OFFSETS: Final = 4096
_GROWTH: Final = 4
_PIECES: Final = 64


@dataclass(frozen=True, slots=True)
class Backlog:
    """Part of a log that a stream has not read yet, in pieces; picklable.

    Attributes:
        start_offset: First offset of the part.
        pieces: End offset of each piece, and the bytes from the start up to it; both increase.
    """

    start_offset: int
    pieces: Sequence[tuple[int, int]]

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all pieces together."""
        return self.pieces[-1][1] if self.pieces else 0

    def end_within(self, limit_bytes: int) -> int:
        """Return the end of as many pieces as fit into a limit.

        At least one piece always fits: a chunk larger than the limit must not stop the stream.
        """
        if not self.pieces:
            return self.start_offset
        fitting = [end for end, size in self.pieces if size <= limit_bytes]
        return max(fitting, default=self.pieces[0][0])


def measure_backlog(reader: LogReader, start: int, end: int, enough_bytes: int) -> Backlog:
    """Return the pieces of `[start, end)`, or of its beginning if that has enough bytes.

    Args:
        reader: Reader of the log.
        start: First offset.
        end: End of the range, exclusive.
        enough_bytes: Bytes after which to stop, at least 1; a piece is a small part of it.

    Raises:
        OffsetOutOfRangeError: Retention has removed a part of the range.
        OSError: An index cannot be read.
    """
    piece_bytes = max(1, enough_bytes // _PIECES)
    span = _FIRST_OFFSETS
    pieces = [(start, 0)]
    while pieces[-1][0] < end and pieces[-1][1] <= enough_bytes:
        stop = min(start + span, end)
        size = 0
        pieces = []
        for split in reader.plan_splits(start, stop, piece_bytes):
            size += split.end_position - split.start_position
            pieces.append((split.end_offset, size))
        span *= _GROWTH
    return Backlog(start, pieces if start < end else ())
