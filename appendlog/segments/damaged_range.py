"""What is known about a piece of a segment that holds no valid chunk."""

from dataclasses import dataclass

from appendlog.segments.scan import SegmentScan


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """The bytes `[start_position, end_position)` of a segment, which were skipped; picklable.

    Attributes:
        segment: Name of the file.
        start_position: Where a chunk should begin.
        end_position: Where the next valid one begins, or the chunks of the segment end.
        reason: What is wrong at the start, a few words.
        start_offset: First offset that was not found.
        end_offset: Of what comes behind; equal to the start when no offset is missing.
    """

    segment: str
    start_position: int
    end_position: int
    reason: str
    start_offset: int
    end_offset: int

    def __str__(self) -> str:
        """Return where it is and what it cost."""
        return (
            f"{self.segment}: bytes [{self.start_position}, {self.end_position}), "
            f"offsets [{self.start_offset}, {self.end_offset}): {self.reason}"
        )


def damage_reason(scan: SegmentScan, position: int, minimum_offset: int, end_position: int) -> str:
    """Return in a few words why there is no valid chunk.

    Args:
        scan: Of the segment.
        position: Where it should begin.
        minimum_offset: That it may begin with.
        end_position: Of the segment's chunks.
    """
    header = scan.header_at(position, minimum_offset)
    if header is None:
        return "no chunk begins here"
    if position + header.chunk_bytes > end_position:
        return "a chunk that is cut off"
    if scan.chunk_at(position, minimum_offset) is None:
        return "a chunk whose checksum is wrong"
    return "a chunk whose records do not add up"
