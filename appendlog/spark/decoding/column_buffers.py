"""Memory that the columns kernel fills and that becomes an Arrow column without a copy."""

from typing import Final, Literal

import pyarrow as pa

_BYTES_MIN: Final = 64
_WIDTHS: Final = {"B": 1, "h": 2, "i": 4, "q": 8}
COLUMN_BYTES_MAX: Final = (1 << 31) - 1
"""What 32-bit positions in a column reach."""


class ColumnBuffer:
    """A piece of memory with places for numbers; nothing is in it at first.

    Args:
        places: How many.
        kind: Of numbers, as `memoryview.cast` has it: B, h, i or q.

    Attributes:
        view: Of the places, writable.
    """

    def __init__(self, places: int, kind: Literal["B", "h", "i", "q"]) -> None:
        self._kind = kind
        self._width = _WIDTHS[kind]
        # An empty view can be cast to nothing else.
        self._buffer = pa.allocate_buffer(max(places * self._width, _BYTES_MIN))
        self.view = memoryview(self._buffer).cast("B").cast(kind)

    def part(self, start: int, count: int) -> pa.Buffer:
        """Return the places `[start, start + count)`; shares the memory."""
        return self._buffer.slice(start * self._width, count * self._width)

    def grown(self, used: int, more: int) -> "ColumnBuffer":
        """Return a copy of the first `used` places with room for `more` behind them at least.

        Raises:
            OverflowError: That is more than a column can have.
        """
        needed = used + more
        if needed > COLUMN_BYTES_MAX:
            raise OverflowError(f"a column of {needed} values or bytes in one batch")
        larger = ColumnBuffer(min(max(needed, 2 * used), COLUMN_BYTES_MAX), self._kind)
        larger.view[:used] = self.view[:used]
        return larger
