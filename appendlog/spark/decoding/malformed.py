"""Finds records that are no messages although their checksums are right."""

from array import array
from collections.abc import Sequence

from appendlog.layout.message import message_borders
from appendlog.segments.read_result import Records


class MalformedMessageError(ValueError):
    """A record with a right checksum holds no message: another program wrote it.

    Attributes:
        offset: Offset of the record.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(f"the record at offset {offset} holds no message")
        self.offset = offset


def without_malformed(parts: Sequence[Records]) -> tuple[list[Records], list[int]]:
    """Return the records that are messages, and the offsets of the others."""
    kept: list[Records] = []
    malformed: list[int] = []
    for part in parts:
        good = array("I")
        for row, (offset, message) in enumerate(zip(part.offsets, part.messages(), strict=True)):
            try:
                message_borders(message)
            except ValueError:
                malformed.append(offset)
            else:
                good.append(row)
        if good:
            kept.append(
                Records(
                    part.buffer,
                    array("q", [part.offsets[row] for row in good]),
                    array("I", [part.positions[row] for row in good]),
                    array("I", [part.lengths[row] for row in good]),
                    array("q", [part.timestamps_ns[row] for row in good]),
                )
            )
    return kept, malformed
