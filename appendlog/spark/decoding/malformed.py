"""Records that are no messages, though their checksums are right: another program wrote them."""

from array import array
from collections.abc import Sequence

from appendlog.segments.read_result import Records
from appendlog.spark.decoding.arrow_batches import MalformedMessageError, body_position


def without_malformed(parts: Sequence[Records]) -> tuple[list[Records], list[int]]:
    """Return the records that are messages, and the offsets of those that are not."""
    kept: list[Records] = []
    malformed: list[int] = []
    for part in parts:
        good = array("I")
        for row, (offset, message) in enumerate(zip(part.offsets, part.messages(), strict=True)):
            try:
                body_position(message, offset)
            except MalformedMessageError:
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
