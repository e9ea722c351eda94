"""Finds the fields of a batch's messages in one pass, and copies them in a second one."""

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from appendlog.layout.columns import ColumnsKernel, ReadableBuffer
from appendlog.segments.read_result import Records
from appendlog.spark.decoding.column_buffers import ColumnBuffer
from appendlog.spark.decoding.malformed import MalformedMessageError

DELIVERY_MODE: Final = 0
PRIORITY: Final = 1
TIMESTAMP: Final = 2

TIMES_END_SECONDS: Final = 253_402_214_400
"""The last day of the year 9999: Python has no later times, and some zones are 14 hours ahead."""

_ROWS_OF_PIECE: Final = 1024
_JOINED_BYTES_MAX: Final = 16 << 20
_ROOM_STEP: Final = 512
"""Rows whose bits fill 64 bytes: Arrow prefers buffers that begin at such a multiple."""


class FoundFields:
    """Places of the fields of one batch; a decoder has one, and fills it for each batch.

    Args:
        kernel: Kernel to use.
        fields: Wanted fields, by the kernel's numbers; each gets a slot.
        is_text: Whether a field must be UTF-8, for each of `fields`.
        with_properties: Whether properties that are numbers are wanted.

    Attributes:
        pieces: Buffers with the rows, and the number of rows in each, in order.
        room: Places of each slot in `starts` and `ends`; `bits` has an eighth of that.
        starts: See `appendlog.layout.columns`; likewise `ends` and `bits`.
    """

    def __init__(
        self,
        kernel: ColumnsKernel,
        fields: Sequence[int],
        is_text: Sequence[bool],
        with_properties: bool,
    ) -> None:
        self._kernel = kernel
        self._fields = array("i", fields)
        self._is_text = array("i", is_text)
        self._with_properties = with_properties
        self._slots = len(fields)
        self.starts = array("q")
        self.pieces: list[tuple[ReadableBuffer, int]] = []

    def find(self, parts: Sequence[Records], rows: int) -> int:
        """Find the fields of all messages.

        Returns:
            Number of messages whose property list is malformed.

        Raises:
            MalformedMessageError: A record is no message.
        """
        self._rows = rows
        self.room = room = (rows // _ROOM_STEP + 1) * _ROOM_STEP
        if len(self.starts) < room * self._slots:
            self.starts = array("q", bytes(8 * room * self._slots))
        self._ends = ColumnBuffer(room * self._slots, "i")
        self.ends = self._ends.view
        for slot in range(self._slots):
            self.ends[slot * room] = 0
        self.bits = bytearray((self._slots + 3) * (room >> 3))
        self._octets = ColumnBuffer(2 * room, "h")
        self._seconds = ColumnBuffer(room, "q")
        self._extra = bytearray()
        return self._find(parts)

    def _find(self, parts: Sequence[Records]) -> int:
        row = unreadable = 0
        for part, base in zip(parts, self._bases(parts), strict=True):
            found, malformed = self._kernel.find_fields(
                part.buffer,
                part.positions,
                part.lengths,
                base,
                row,
                self.room,
                self._fields,
                self._is_text,
                self._with_properties,
                self.starts,
                self.ends,
                self.bits,
                self._octets.view,
                self._seconds.view,
                self._extra,
            )
            if malformed >= 0:
                raise MalformedMessageError(part.offsets[malformed])
            unreadable += found
            row += len(part)
        return unreadable

    def _bases(self, parts: Sequence[Records]) -> list[int]:
        """Choose the pieces; return for each part the position of its buffer in its piece.

        Each packed chunk is a part with a buffer of its own, often a small one. Joining these
        buffers costs less than visiting each of them for each column.
        """
        # Parts that are not packed share one buffer.
        buffers = {id(part.buffer): part.buffer for part in parts}
        if (
            len(buffers) < 2
            or self._rows >= len(parts) * _ROWS_OF_PIECE
            or sum(map(len, buffers.values())) > _JOINED_BYTES_MAX
        ):
            self.pieces = [(part.buffer, len(part)) for part in parts]
            return [0] * len(parts)
        begins = accumulate(map(len, buffers.values()), initial=0)
        bases = dict(zip(buffers, begins, strict=False))
        self.pieces = [(b"".join(buffers.values()), self._rows)]
        return [bases[id(part.buffer)] for part in parts]

    def bytes_column(self, slot: int, arrow_type: pa.DataType) -> pa.Array:
        """Return a column of strings or bytes."""
        first = slot * self.room
        size_bytes = self.ends[first + self._rows]
        target = ColumnBuffer(size_bytes, "B")
        for data, count in self.pieces if size_bytes else ():
            self._kernel.copy_field(
                data, self._extra, self.starts, self.ends, first, count, target.view
            )
            first += count
        ends = self._ends.part(slot * self.room, self._rows + 1)
        return pa.Array.from_buffers(
            arrow_type, self._rows, [self.validity(slot), ends, target.part(0, size_bytes)]
        )

    def number_column(self, number: int, arrow_type: pa.DataType) -> pa.Array:
        """Return a column of a property that is a number: DELIVERY_MODE, PRIORITY, TIMESTAMP.

        A timestamp is a number as well, or a time, which is null from `TIMES_END_SECONDS` on.
        """
        validity = self.validity(self._slots + number)
        if number != TIMESTAMP:
            octets = self._octets.part(number * self.room, self._rows)
            return pa.Array.from_buffers(arrow_type, self._rows, [validity, octets])
        values = self._seconds.part(0, self._rows)
        seconds = pa.Array.from_buffers(pa.int64(), self._rows, [validity, values])
        return _times(seconds, arrow_type) if pa.types.is_timestamp(arrow_type) else seconds

    def validity(self, slot: int) -> pa.Buffer:
        """Return the bitmap of the rows that have the field of a slot; shares memory."""
        return pa.py_buffer(self.bits).slice(slot * (self.room >> 3), self._rows + 7 >> 3)


def _times(seconds: pa.Int64Array, arrow_type: pa.DataType) -> pa.Array:
    """Return times of seconds since 1970; null where Python has no such time."""
    # Negative ones are above 2^63 - 1.
    is_time = pc.and_(pc.greater_equal(seconds, 0), pc.less(seconds, TIMES_END_SECONDS))
    if not pc.all(is_time).as_py():
        seconds = pc.if_else(is_time, seconds, pa.scalar(None, pa.int64()))
    return pc.multiply(seconds, 1_000_000).cast(arrow_type)
