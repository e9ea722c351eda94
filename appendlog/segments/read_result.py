"""Result of a read: where the records lie; messages are copied only on request."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from appendlog.layout.records import ReadableBuffer, cut_messages
from appendlog.segments.damaged_range import DamagedRange


@dataclass(slots=True)
class Records:
    """Records that lie in one buffer, in order: their places, without an object for each.

    Attributes:
        buffer: Bytes with the records: a piece of a file that was read, or a mapping of the file,
            which lives as long as this object.
        offsets: Offsets, strictly increasing; a range if there are no gaps.
        positions: Positions in the buffer where the messages begin.
        lengths: Lengths of the messages, in bytes.
        timestamps_ns: Append times, ns since 1970 UTC.
    """

    buffer: ReadableBuffer
    offsets: Sequence[int]
    positions: array[int]
    lengths: array[int]
    timestamps_ns: array[int]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def sole_message(self) -> bytes | None:
        """The message, without a copy, if the buffer is nothing but this one; otherwise None."""
        buffer = self.buffer
        if isinstance(buffer, bytes) and len(self) == 1 and self.lengths[0] == len(buffer):
            return buffer
        return None

    def messages(self) -> list[bytes]:
        """Return copies of all messages."""
        return cut_messages(self.buffer, self.positions, self.lengths, 0, len(self.positions))


@dataclass(slots=True)
class ReadResult:
    """Records of a log, as a read returns them.

    Each call makes the lists again.

    Attributes:
        parts: Records, one part for each buffer that they lie in; no part is empty.
        next_offset: Offset at which to continue. Offsets below it that are not in `offsets` are
            not in the log: they were never written, or are removed or lost.
        lost: Offsets `[start, end)` of damage that this read had to skip.
        damaged: Bytes of that damage; some of it may have cost no offset.
        read_bytes: Bytes read from files.
        record_count: Number of records in all parts.
        message_bytes: Size of the messages in all parts.
    """

    parts: list[Records] = field(default_factory=list)
    next_offset: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    read_bytes: int = 0
    record_count: int = 0
    message_bytes: int = 0
    damaged: Sequence[DamagedRange] = ()

    @property
    def offsets(self) -> list[int]:
        """Offsets of the records, strictly increasing."""
        return [offset for part in self.parts for offset in part.offsets]

    @property
    def messages(self) -> list[bytes]:
        """Copies of the messages for the caller, in the format of `appendlog.layout.message`."""
        return [message for part in self.parts for message in part.messages()]

    @property
    def timestamps_ns(self) -> list[int]:
        """Append times of the records, ns since 1970 UTC."""
        return [time_ns for part in self.parts for time_ns in part.timestamps_ns]

    def add(self, parts: list[Records], record_count: int, message_bytes: int) -> None:
        """Add parts after the present ones; none of them is empty."""
        self.parts += parts
        self.record_count += record_count
        self.message_bytes += message_bytes
