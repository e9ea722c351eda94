"""Description of a piece of a segment that holds no valid chunk."""

from dataclasses import dataclass

from appendlog.segments.scan import SegmentScan


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Skipped bytes `[start_position, end_position)` of a segment; picklable.

    Attributes:
        segment: Name of the segment file.
        start_position: Position where a chunk should begin.
        end_position: Position of the next valid chunk, or the end of the segment's chunks.
        reason: What is wrong at the start, in a few words.
        start_offset: First offset that is missing.
        end_offset: First offset after the damage; equal to the start if no offset is missing.
    """

    segment: str
    start_position: int
    end_position: int
    reason: str
    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        """Return the place of the damage, the offsets that it affects and the reason."""
        return (
            f"{self.segment}: bytes [{self.start_position}, {self.end_position}), "
            f"offsets [{self.start_offset}, {self.end_offset}): {self.reason}"
        )


def damage_reason(scan: SegmentScan, position: int, minimum_offset: int, end_position: int) -> str:
    """Return, in a few words, why there is no valid chunk at a position.

    Args:
        scan: Scan of the segment.
        position: Position where the chunk should begin.
        minimum_offset: Lowest base offset that the chunk may have.
        end_position: Position where the segment's chunks end.
    """
    header = scan.header_at(position, minimum_offset)
    if header is None:
        return "no chunk begins here"
    if position + header.chunk_bytes > end_position:
        return "a chunk that is cut off"
    if scan.chunk_at(position, minimum_offset) is None:
        return "a chunk whose checksum is wrong"
    return "a chunk whose records do not add up"
