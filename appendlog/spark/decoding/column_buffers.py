"""Memory that the columns kernel fills, and that becomes an Arrow column without a copy."""

from typing import Final, Literal

import pyarrow as pa

_BYTES_MIN: Final = 64
_WIDTHS: Final = {"B": 1, "h": 2, "i": 4, "q": 8}
COLUMN_BYTES_MAX: Final = (1 << 31) - 1
"""Largest size of a column, whose positions have 32 bits."""


class ColumnBuffer:
    """Uninitialised memory for numbers of one kind.

    Args:
        places: Count of numbers that fit.
        kind: Kind of number, as for `memoryview.cast`: B, h, i or q.

    Attributes:
        view: Writable view of the numbers.
    """

    def __init__(self, places: int, kind: Literal["B", "h", "i", "q"]) -> None:
        self._kind = kind
        self._width = _WIDTHS[kind]
        # Python cannot cast an empty view.
        self._buffer = pa.allocate_buffer(max(places * self._width, _BYTES_MIN))
        self.view = memoryview(self._buffer).cast("B").cast(kind)

    def part(self, start: int, count: int) -> pa.Buffer:
        """Return the places `[start, start + count)`; shares the memory."""
        return self._buffer.slice(start * self._width, count * self._width)

    def grown(self, used: int, more: int) -> "ColumnBuffer":
        """Return a copy of the first `used` places, with room for at least `more` after them.

        Raises:
            OverflowError: A column cannot be that large.
        """
        needed = used + more
        if needed > COLUMN_BYTES_MAX:
            raise OverflowError(f"a column of {needed} values or bytes in one batch")
        larger = ColumnBuffer(min(max(needed, 2 * used), COLUMN_BYTES_MAX), self._kind)
        larger.view[:used] = self.view[:used]
        return larger
