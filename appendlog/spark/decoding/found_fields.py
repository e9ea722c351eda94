"""Where the fields of a batch's messages lie: found in one pass, copied in a second."""

from array import array
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from appendlog.layout.columns import ColumnsKernel, ReadableBuffer
from appendlog.segments.read_result import Records
from appendlog.spark.decoding.column_buffers import ColumnBuffer
from appendlog.spark.decoding.malformed import MalformedMessageError

DELIVERY_MODE: Final = 0
PRIORITY: Final = 1
TIMESTAMP: Final = 2

_ROOM_STEP: Final = 512
"""Bits of so many rows fill 64 bytes, at which Arrow likes buffers to begin."""


class FoundFields:
    """The fields of one batch; made once for a decoder, filled anew for each batch.

    Args:
        kernel: To use.
        fields: The ones wanted, as the kernel has them: a slot each.
        is_text: Which of them must be UTF-8.
        with_properties: Whether numbers among the properties are wanted.
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

    def find(self, parts: Sequence[Records], rows: int) -> int:
        """Find the fields of all messages.

        Returns:
            How many messages have properties that do not add up.

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
        self._microseconds = ColumnBuffer(room, "q")
        self._extra = bytearray()
        return self._find(parts)

    def _find(self, parts: Sequence[Records]) -> int:
        row = unreadable = 0
        for part in parts:
            found, malformed = self._kernel.find_fields(
                part.buffer,
                part.positions,
                part.lengths,
                row,
                self.room,
                self._fields,
                self._is_text,
                self._with_properties,
                self.starts,
                self.ends,
                self.bits,
                self._octets.view,
                self._microseconds.view,
                self._extra,
            )
            if malformed >= 0:
                raise MalformedMessageError(part.offsets[malformed])
            unreadable += found
            row += len(part)
        return unreadable

    def field(self, data: ReadableBuffer, slot: int, row: int) -> bytes | None:
        """Return a copy of a field that is not text; None where it is absent."""
        if not self.bits[slot * (self.room >> 3) + (row >> 3)] & 1 << (row & 7):
            return None
        place = slot * self.room + row
        start = self.starts[place]
        return bytes(data[start : start + self.ends[place + 1] - self.ends[place]])

    def bytes_column(
        self, parts: Sequence[Records], slot: int, arrow_type: pa.DataType
    ) -> pa.Array:
        """Return a column of strings or bytes."""
        first = slot * self.room
        size_bytes = self.ends[first + self._rows]
        target = ColumnBuffer(size_bytes, "B")
        for part in parts:
            self._kernel.copy_field(
                part.buffer, self._extra, self.starts, self.ends, first, len(part), target.view
            )
            first += len(part)
        ends = self._ends.part(slot * self.room, self._rows + 1)
        return pa.Array.from_buffers(
            arrow_type, self._rows, [self.validity(slot), ends, target.part(0, size_bytes)]
        )

    def number_column(self, number: int, arrow_type: pa.DataType) -> pa.Array:
        """Return a column of a property that is a number: DELIVERY_MODE, PRIORITY, TIMESTAMP."""
        if number == TIMESTAMP:
            values = self._microseconds.part(0, self._rows)
        else:
            values = self._octets.part(number * self.room, self._rows)
        return pa.Array.from_buffers(
            arrow_type, self._rows, [self.validity(self._slots + number), values]
        )

    def validity(self, slot: int) -> pa.Buffer:
        """Return which rows have the field of a slot; shares the memory of the bits."""
        return pa.py_buffer(self.bits).slice(slot * (self.room >> 3), self._rows + 7 >> 3)
