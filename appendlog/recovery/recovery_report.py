"""What recovery found and did."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class RecoveryReport:
    """Facts of one start of one log.

    Attributes:
        directory: Of the log.
        segment_count: Segments found.
        scanned_bytes: Bytes read chunk by chunk; footers are not counted.
        record_count: Records in the log.
        cut_bytes: Bytes of torn tails, moved to `.torn` files.
        damaged_chunks: Damaged places; each may have held more than one chunk.
        damaged_bytes: Bytes of them, copied to `.damaged` files.
        lost: Offsets `[start, end)` that once were in the log, or may have been. Treat them
            as settled. Damage that an earlier start found is counted again as long
            as its segment is scanned.
        seconds: How long it took.
    """

    directory: Path
    segment_count: int = 0
    scanned_bytes: int = 0
    record_count: int = 0
    cut_bytes: int = 0
    damaged_chunks: int = 0
    damaged_bytes: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing was cut, damaged or lost."""
        return not (self.cut_bytes or self.damaged_chunks or self.lost)

    def add_lost(self, start: int, end: int) -> None:
        """Note lost offsets; an empty range is ignored."""
        if start < end:
            self.lost.append((start, end))
