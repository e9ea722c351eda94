"""How many bytes of log a range of offsets is, and where a number of bytes ends.

By the sparse index: no message is read. Only as much of the index is looked at as the answer
needs, however long the log is.
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
    """What of a log is still to be read, in pieces; picklable.

    Attributes:
        start_offset: Inclusive.
        pieces: End offset of each, and how many bytes there are up to it; both grow.
    """

    start_offset: int
    pieces: Sequence[tuple[int, int]]

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all pieces."""
        return self.pieces[-1][1] if self.pieces else 0

    def end_within(self, limit_bytes: int) -> int:
        """Return the largest end of pieces that have no more bytes than a limit together.

        One piece is always taken, or a chunk larger than the limit would end the stream.
        """
        if not self.pieces:
            return self.start_offset
        fitting = [end for end, size in self.pieces if size <= limit_bytes]
        return max(fitting, default=self.pieces[0][0])


def measure_backlog(reader: LogReader, start: int, end: int, enough_bytes: int) -> Backlog:
    """Return the pieces of `[start, end)`, or of so much of it as has enough bytes.

    Args:
        reader: Of the log.
        start: Inclusive.
        end: Exclusive.
        enough_bytes: At least 1; pieces are a small part of it.

    Raises:
        OffsetOutOfRangeError: Retention took part of the range.
        OSError: An index cannot be read.
    """
    piece_bytes = max(1, enough_bytes // _PIECES)
    span, pieces = _FIRST_OFFSETS, [(start, 0)]
    while pieces[-1][0] < end and pieces[-1][1] <= enough_bytes:
        stop = min(start + span, end)
        size, pieces = 0, []
        for split in reader.plan_splits(start, stop, piece_bytes):
            size += split.end_position - split.start_position
            pieces.append((split.end_offset, size))
        span *= _GROWTH
    return Backlog(start, pieces if start < end else ())
