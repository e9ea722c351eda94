"""What a read of a log returns: where the records lie, and copies only when asked for."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from appendlog.layout.records import ReadableBuffer, cut_messages
from appendlog.segments.damaged_range import DamagedRange


@dataclass(slots=True)
class Records:
    """Records that lie in one buffer, in order: places, no object for each.

    Attributes:
        buffer: Their bytes: a piece of a file that was read, or a mapping of it, which lives
            as long as this does.
        offsets: Strictly increasing; a range where there are no gaps.
        positions: Where the message of each begins in the buffer.
        lengths: How long it is.
        timestamps_ns: Append times.
    """

    buffer: ReadableBuffer
    offsets: Sequence[int]
    positions: array[int]
    lengths: array[int]
    timestamps_ns: array[int]

    def __len__(self) -> int:
        return len(self.positions)

    def messages(self) -> list[bytes]:
        """Return copies of all messages."""
        return cut_messages(self.buffer, self.positions, self.lengths, 0, len(self.positions))


@dataclass(slots=True)
class ReadResult:
    """Records of a log.

    The lists are made each time that they are asked for.

    Attributes:
        parts: The records, a part for each buffer that they lie in; none is empty.
        next_offset: Where to go on. Offsets in `[asked, next_offset)` that are not in
            `offsets` are not in the log: never written, removed, or lost.
        lost: Offsets `[start, end)` of damage that this read had to skip.
        damaged: The bytes of it; some may have cost no offset.
        read_bytes: Bytes read from files.
        record_count: Records in all parts.
        message_bytes: Their messages together.
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
        """Strictly increasing."""
        return [offset for part in self.parts for offset in part.offsets]

    @property
    def messages(self) -> list[bytes]:
        """As `appendlog.layout.message` draws them; copies, the caller's own."""
        return [message for part in self.parts for message in part.messages()]

    @property
    def timestamps_ns(self) -> list[int]:
        """Append times."""
        return [time_ns for part in self.parts for time_ns in part.timestamps_ns]

    def add(self, parts: list[Records], record_count: int, message_bytes: int) -> None:
        """Take parts in that come behind those which are here; none of them is empty."""
        self.parts += parts
        self.record_count += record_count
        self.message_bytes += message_bytes
