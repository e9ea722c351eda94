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
        end_offset: Where its files end, exclusive. Behind it the log goes on over what was lost.
        cut_bytes: Bytes of torn tails, moved to `.torn` files.
        damaged_chunks: Damaged places; each may have held more than one chunk.
        damaged_bytes: Bytes of them, copied to `.damaged` files.
        lost: Offsets `[start, end)` that once were in the log, or may have been. Treat them
            as settled. Damage that an earlier start found is counted again as long
            as its segment is scanned.
        noted: Those of `lost` that a note in the log speaks of: an earlier start or a repair has
            told of them, and nothing is wrong with the log any more.
        strangers: Files with a segment's name that are no segments of this log, each with why. They
            are left alone, and cost nothing but a look at each start.
        ahead_ns: How far the last append time lies ahead of the clock; 0 where that is at most
            a minute. The next record begins a segment, with the time of the clock.
        seconds: How long it took.
    """

    directory: Path
    segment_count: int = 0
    scanned_bytes: int = 0
    record_count: int = 0
    end_offset: int = 0
    cut_bytes: int = 0
    damaged_chunks: int = 0
    damaged_bytes: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    noted: list[tuple[int, int]] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    ahead_ns: int = 0
    seconds: float = 0.0

    @property
    def is_damaged(self) -> bool:
        """Tell whether something is damaged, lost without a note of it, or not of this log."""
        return bool(self.damaged_chunks or self.strangers) or len(self.lost) > len(self.noted)

    @property
    def is_clean(self) -> bool:
        """Tell whether nothing was cut or damaged, and nothing lost but what is noted."""
        return not (self.cut_bytes or self.is_damaged)

    def add_lost(self, start: int, end: int) -> None:
        """Note lost offsets; an empty range is ignored."""
        if start < end:
            self.lost.append((start, end))

    def add_noted(self, start: int, end: int) -> None:
        """Note lost offsets that the log itself speaks of; an empty range is ignored."""
        if start < end:
            self.lost.append((start, end))
            self.noted.append((start, end))
