"""What one append adds to a log, as one value from the caller to the files."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from appendlog.layout.format import GAP_SKIPPED
from appendlog.layout.large_chunk import Chunk


@dataclass(frozen=True, slots=True)
class Append:
    """Chunks to append to a log, and what holds afterwards; see `Log.append`.

    Attributes:
        chunks: Results of `encode_chunk` with the log's salt, or `LargeChunk`s; base offsets
            increase from the log's end on. May be empty. The log does not keep them.
        end_offset: Log end offset afterwards, at least the end of the last chunk. The log skips
            the offsets between the two and never uses them (it writes a gap marker).
        sync: Whether everything up to `end_offset` must be on the disk afterwards.
        settled_floor: Offset below which no consumer reads soon. Synced pages with records below
            it need not stay in the page cache.
        gap_reason: Reason in that gap marker: `GAP_SKIPPED`, or `GAP_LOST` for lost records.
    """

    chunks: Sequence[Chunk]
    end_offset: int
    _: KW_ONLY
    sync: bool
    settled_floor: int = 0
    gap_reason: int = GAP_SKIPPED
