"""Sums over the chunks of a segment, and the footer that stores them.

With footers, opening a log reads only its last segment: counts, bytes, transient records, expiry
times and priorities of the others are known without a scan.

Source: docs/log-format.md, section 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from appendlog.layout.chunk import ChunkHeader, encode_control
from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    CONTROL_FOOTER,
    FOOTER,
    FOOTER_BYTES,
    FOOTER_MAGIC,
    FOOTER_TRAILER,
    FOOTER_TRAILER_BYTES,
    KIND_CONTROL,
    REMOVED_JOINED,
    REMOVED_RANGE,
    REMOVED_RANGE_BYTES,
    REMOVED_RANGES_MAX,
    TIMES_STEP_BACK,
    U64_MAX,
)

PLAIN_FOOTER_BYTES = CHUNK_HEADER_BYTES + FOOTER_BYTES + FOOTER_TRAILER_BYTES
"""Size of a footer without removed ranges."""


@dataclass(slots=True)
class SegmentSummary:
    """Sums over the data chunks of one segment.

    Attributes:
        chunk_count: Number of data chunks.
        first_offset: Offset of the first record; the end offset if there is none.
        end_offset: End offset, exclusive; the next segment starts there.
        record_count: Number of records.
        transient_count: Number of records without the PERSISTENT flag.
        body_bytes: Size of the message bodies.
        first_timestamp_ns: Append time of the first record; 0 if there is none.
        last_timestamp_ns: Greatest append time in the segment; without records, the last append
            time of the log before it.
        min_expiry_ns: Earliest expiry of a message by its own expiration; 0 = none expires.
        max_expiry_ns: Latest such expiry; 0 = none expires.
        priority_bitmap: Bit min(priority, 63) of each message that has a priority.
        steps_back: Whether the log's append times step back at the start of this segment or of an
            earlier one. Not a sum over chunks, so two summaries may be equal despite it.
    """

    first_offset: int
    end_offset: int
    last_timestamp_ns: int
    chunk_count: int = 0
    record_count: int = 0
    transient_count: int = 0
    body_bytes: int = 0
    first_timestamp_ns: int = 0
    min_expiry_ns: int = 0
    max_expiry_ns: int = 0
    priority_bitmap: int = 0
    steps_back: bool = field(default=False, compare=False)

    def copy(self) -> "SegmentSummary":
        """Return sums that change by themselves."""
        return SegmentSummary(
            self.first_offset,
            self.end_offset,
            self.last_timestamp_ns,
            self.chunk_count,
            self.record_count,
            self.transient_count,
            self.body_bytes,
            self.first_timestamp_ns,
            self.min_expiry_ns,
            self.max_expiry_ns,
            self.priority_bitmap,
            self.steps_back,
        )

    def time_before(self, first_timestamp_ns: int) -> int:
        """Return the greatest append time before the next data chunk, for the index.

        Never above the time of that chunk: if times step back, earlier segments do not count.

        Args:
            first_timestamp_ns: First append time of that chunk.
        """
        if self.record_count:
            return self.last_timestamp_ns
        return min(self.last_timestamp_ns, first_timestamp_ns)

    def add(self, chunk: ChunkHeader) -> None:
        """Add one chunk; a control chunk only moves the end offset."""
        if chunk.kind == KIND_CONTROL:
            if not self.record_count:
                self.first_offset = chunk.base_offset
            self.end_offset = chunk.base_offset
            return
        if not self.record_count:
            self.first_offset = chunk.base_offset
            self.first_timestamp_ns = self.last_timestamp_ns = chunk.first_timestamp_ns
        self.chunk_count += 1
        self.record_count += chunk.record_count
        self.end_offset = chunk.base_offset + chunk.last_offset_delta + 1
        self.transient_count += chunk.transient_count
        self.body_bytes += chunk.body_bytes
        self.last_timestamp_ns = max(self.last_timestamp_ns, chunk.last_timestamp_ns)
        self.priority_bitmap |= chunk.priority_bitmap
        if chunk.min_expiry_ns:
            self.min_expiry_ns = min(self.min_expiry_ns or chunk.min_expiry_ns, chunk.min_expiry_ns)
            self.max_expiry_ns = max(self.max_expiry_ns, chunk.max_expiry_ns)

    def add_sums(self, sums: Sequence[int]) -> None:
        """Add sums over at least one data chunk, from `appendlog.layout.records.sum_chunks`."""
        chunks, records, transient, body_bytes, last_timestamp_ns, *rest = sums
        min_expiry_ns, max_expiry_ns, bitmap, first_offset, first_timestamp_ns, end_offset = rest
        if not self.record_count:
            self.first_offset = first_offset
            self.first_timestamp_ns = self.last_timestamp_ns = first_timestamp_ns
        self.chunk_count += chunks
        self.record_count += records
        self.end_offset = end_offset
        self.transient_count += transient
        self.body_bytes += body_bytes
        self.last_timestamp_ns = max(self.last_timestamp_ns, last_timestamp_ns)
        self.priority_bitmap |= bitmap & U64_MAX
        if min_expiry_ns:
            self.min_expiry_ns = min(self.min_expiry_ns or min_expiry_ns, min_expiry_ns)
            self.max_expiry_ns = max(self.max_expiry_ns, max_expiry_ns)


def encode_footer(
    summary: SegmentSummary,
    salt: int,
    removed: Sequence[tuple[int, int]] = (),
    *,
    are_joined: bool = False,
) -> bytes:
    """Return the footer chunk that seals a segment.

    Args:
        summary: Sums of the segment's chunks.
        salt: Salt of the log.
        removed: Ranges of offsets that compaction removed; ascending and disjoint, at most
            `REMOVED_RANGES_MAX`.
        are_joined: Whether these ranges also contain existing records.
    """
    assert len(removed) <= REMOVED_RANGES_MAX
    removed_bytes = REMOVED_RANGE_BYTES * len(removed)
    flags = (REMOVED_JOINED if are_joined else 0) | (TIMES_STEP_BACK if summary.steps_back else 0)
    payload = FOOTER.pack(
        CONTROL_FOOTER,
        0,
        summary.chunk_count,
        summary.first_offset,
        summary.end_offset,
        summary.record_count,
        summary.transient_count,
        summary.body_bytes,
        summary.first_timestamp_ns,
        summary.last_timestamp_ns,
        summary.min_expiry_ns,
        summary.max_expiry_ns,
        summary.priority_bitmap,
        len(removed),
        flags,
    )
    payload += b"".join([REMOVED_RANGE.pack(start, end) for start, end in removed])
    payload += FOOTER_TRAILER.pack(PLAIN_FOOTER_BYTES + removed_bytes, FOOTER_MAGIC)
    return encode_control(payload, summary.end_offset, summary.last_timestamp_ns, salt)


def decode_footer(payload: bytes) -> SegmentSummary | None:
    """Return the sums in a footer chunk's payload, or None if it is not a footer.

    The caller has checked the CRC of the chunk.
    """
    if len(payload) < FOOTER_BYTES + FOOTER_TRAILER_BYTES:
        return None
    fields = FOOTER.unpack_from(payload)
    removed_bytes = REMOVED_RANGE_BYTES * fields[13]
    if fields[:2] != (CONTROL_FOOTER, 0):
        return None
    if len(payload) != FOOTER_BYTES + removed_bytes + FOOTER_TRAILER_BYTES:
        return None
    chunk_count, first_offset, end_offset, record_count, transient_count, body_bytes = fields[2:8]
    first_timestamp_ns, last_timestamp_ns, min_expiry_ns, max_expiry_ns, bitmap = fields[8:13]
    return SegmentSummary(
        first_offset=first_offset,
        end_offset=end_offset,
        last_timestamp_ns=last_timestamp_ns,
        chunk_count=chunk_count,
        record_count=record_count,
        transient_count=transient_count,
        body_bytes=body_bytes,
        first_timestamp_ns=first_timestamp_ns,
        min_expiry_ns=min_expiry_ns,
        max_expiry_ns=max_expiry_ns,
        priority_bitmap=bitmap,
        steps_back=bool(fields[14] & TIMES_STEP_BACK),
    )


def decode_removed(payload: bytes) -> tuple[list[tuple[int, int]], bool]:
    """Return the ranges of offsets that compaction removed.

    Args:
        payload: Payload that `decode_footer` has accepted.

    Returns:
        The ranges, ascending, and whether they also contain existing records.
    """
    flags = FOOTER.unpack_from(payload)[14]
    stop = len(payload) - FOOTER_TRAILER_BYTES
    ranges = list(REMOVED_RANGE.iter_unpack(memoryview(payload)[FOOTER_BYTES:stop]))
    return ranges, bool(flags & REMOVED_JOINED)
