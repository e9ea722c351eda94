"""Report of a recovery."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class RecoveryReport:
    """Findings and actions of one recovery of one log.

    Attributes:
        directory: Directory of the log.
        segment_count: Number of segments found.
        scanned_bytes: Bytes read chunk by chunk, without footers.
        record_count: Number of records in the log.
        end_offset: Offset where its files end, exclusive. The log continues after the lost offsets.
        cut_bytes: Size of torn tails, moved to `.torn` files.
        damaged_chunks: Number of damaged places; each may have held more than one chunk.
        damaged_bytes: Size of the damaged places, copied to `.damaged` files.
        lost: Offsets `[start, end)` that were in the log once, or may have been. Callers treat them
            as settled. Each start reports known damage again while it still scans that segment.
        noted: Part of `lost` that a note in the log explains: an earlier start or a repair has
            reported it, and the log is in order again.
        foreign_files: Files with a segment's name that are not segments of this log, each with a
            reason. Recovery does not touch them; each start looks at them again.
        ahead_ns: How far the last append time is ahead of the clock; 0 if at most a minute. The
            next record begins a segment, with the time of the clock.
        seconds: Duration of the recovery.
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
    foreign_files: list[str] = field(default_factory=list)
    ahead_ns: int = 0
    seconds: float = 0.0

    @property
    def is_damaged(self) -> bool:
        """Return whether data is damaged, lost without a note, or not of this log."""
        return bool(self.damaged_chunks or self.foreign_files) or len(self.lost) > len(self.noted)

    @property
    def is_clean(self) -> bool:
        """Return whether nothing was cut or damaged, and all lost offsets are noted."""
        return not (self.cut_bytes or self.is_damaged)

    def add_lost(self, start: int, end: int) -> None:
        """Add lost offsets; an empty range is ignored."""
        if start < end:
            self.lost.append((start, end))

    def add_noted(self, start: int, end: int) -> None:
        """Add lost offsets that a note in the log explains; an empty range is ignored."""
        if start < end:
            self.lost.append((start, end))
            self.noted.append((start, end))
