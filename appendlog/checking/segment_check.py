"""Check of one segment by itself: header, every chunk and record, footer, index."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from appendlog.checking.chunk_records import chunk_records, contradiction
from appendlog.checking.index_check import IndexCheck
from appendlog.checking.problem import Level, Problem, Problems
from appendlog.checking.segment_walk import FoundChunk, FoundFault, walk_segment
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    CONTROL_GAP,
    GAP_MARKER,
    GAP_MARKER_BYTES,
)
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    SegmentHeader,
    decode_segment_header,
    segment_header_bytes,
)
from appendlog.layout.summary import SegmentSummary, decode_footer, decode_removed
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import Segment, SegmentName


@dataclass(slots=True)
class SegmentContents:
    """Contents of one segment, as the check found them.

    Attributes:
        segment: Names, sizes, and the sums over its chunks.
        header: Segment header; None if it is not readable.
        footer: Sums in its footer; None if it has no footer.
        gaps: Offsets `[start, end)` inside it that no chunk has, in order.
        explained: Part of the gaps that a footer or a gap marker explains.
        index_entries: Number of entries in its index file.
    """

    segment: Segment
    header: SegmentHeader | None = None
    footer: SegmentSummary | None = None
    gaps: list[tuple[int, int]] = field(default_factory=list)
    explained: list[tuple[int, int]] = field(default_factory=list)
    index_entries: int = 0


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """Segment to check, and the bounds of the check.

    Attributes:
        directory: Directory of the log.
        name: Name of the segment.
        end_position: Number of bytes to check; None for all.
        durable_position: Number of bytes that were on the disk once.
        is_last: Whether no segment follows: only then may it have a torn tail and no footer.
        previous_timestamp_ns: Last append time of the segments before.
        is_dense: Whether every offset must be present or explained, as in durable queues.
    """

    directory: Path
    name: SegmentName
    end_position: int | None
    durable_position: int
    is_last: bool
    previous_timestamp_ns: int
    is_dense: bool


class SegmentCheck:
    """Check of one segment; reads all of it.

    Args:
        place: Segment to check, and the bounds of the check.
        identity: Identity of the log.
        filesystem: File operations.
        problems: Receives the problems found.
    """

    def __init__(
        self,
        place: SegmentPlace,
        identity: LogIdentity,
        filesystem: FileSystem,
        problems: Problems,
    ) -> None:
        self._place = place
        self._identity = identity
        self._filesystem = filesystem
        self._problems = problems
        base = place.name.base_offset
        summary = SegmentSummary(base, base, place.previous_timestamp_ns)
        header_bytes = segment_header_bytes(identity)
        self._segment = Segment(place.directory, place.name, header_bytes, summary)
        self._contents = SegmentContents(self._segment)

    def run(self) -> SegmentContents:
        """Read the segment and return its contents.

        Raises:
            OSError: The segment cannot be read.
            UnsupportedFormatError: The segment is of another format version.
        """
        place = self._place
        segment = self._segment
        filesystem = self._filesystem
        descriptors = Descriptors(1)
        try:
            with descriptors.borrow(filesystem, segment.path, 0) as descriptor:
                size = filesystem.size(descriptor)
                if place.end_position is not None:
                    size = min(size, place.end_position)
                segment.size_bytes = size
                segment.is_sealed = not place.is_last
                scan = SegmentScan(filesystem, descriptor, size, self._identity.salt)
                self._walk(scan, size)
        finally:
            descriptors.close()
        return self._contents

    def _walk(self, scan: SegmentScan, size: int) -> None:
        place, segment = self._place, self._segment
        start = self._check_header(scan, size)
        index = IndexCheck(self._filesystem, segment, self._identity.salt, self._problems)
        segment.data_bytes = start
        for found in walk_segment(scan, start, size, place.name.base_offset):
            if isinstance(found, FoundFault):
                self._note_fault(found, size)
                continue
            if self._contents.footer is not None:
                self._add("chunk-behind-footer", "a chunk behind the footer", found.position)
                self._contents.footer = None
            self._note_chunk(found, index)
        index.finish(segment.data_bytes)
        self._contents.index_entries = index.entry_count
        self._check_footer()
        self._check_gaps()

    def _check_header(self, scan: SegmentScan, size: int) -> int:
        """Check the header; return the position where the first chunk should be."""
        place, segment = self._place, self._segment
        header = decode_segment_header(scan.read(0, SEGMENT_HEADER_BYTES_MAX), segment.path)
        self._contents.header = header
        if header is None:
            # A start treats it as what a crash left.
            is_torn = place.is_last and not place.durable_position
            if is_torn and not self._has_chunks(scan, size):
                self._add("torn-tail", "a header cut short", 0, level=Level.HARMLESS)
                return size
            self._add("damaged-header", "no valid segment header", 0)
        elif header.identity != self._identity:
            owner = f"queue {header.identity.queue!r}, incarnation {header.identity.incarnation}"
            self._add("foreign-segment", f"its header says {owner}", 0)
        elif (header.base_offset, header.generation) != place.name:
            said = SegmentName(header.base_offset, header.generation).file_name
            self._add("damaged-header", f"its header says {said}", 0)
        else:
            segment.summary.last_timestamp_ns = header.previous_timestamp_ns
        return min(segment.header_bytes, size)

    def _has_chunks(self, scan: SegmentScan, size: int) -> bool:
        base = self._place.name.base_offset
        found = walk_segment(scan, min(self._segment.header_bytes, size), size, base)
        return any(isinstance(each, FoundChunk) for each in found)

    def _note_fault(self, found: FoundFault, size: int) -> None:
        place = self._place
        is_torn = found.is_tail and place.is_last and found.position >= place.durable_position
        length = found.end - found.position
        if is_torn:
            text = f"{length} bytes of a chunk cut short"
            self._add("torn-tail", text, found.position, level=Level.HARMLESS)
            return
        where = "up to the end" if found.is_tail and found.end == size else "up to the next chunk"
        self._add("damaged-chunk", f"{length} bytes {where} hold no valid chunk", found.position)

    def _note_chunk(self, found: FoundChunk, index: IndexCheck) -> None:
        contents = self._contents
        summary = self._segment.summary
        header = found.header
        expected = summary.end_offset
        ranges, is_footer = explained_ranges(found)
        contents.explained += ranges
        if is_footer:
            contents.footer = decode_footer(found.data[CHUNK_HEADER_BYTES:])
        elif not header.is_control:
            index.note(found.position, header, summary.time_before(header.first_timestamp_ns))
            self._note_records(found)
            if summary.record_count and header.first_timestamp_ns < summary.last_timestamp_ns:
                self._note_step_back(found)
        if header.base_offset > expected and not is_footer:
            contents.gaps.append((expected, header.base_offset))
        if contents.footer is None:
            summary.add(header)
            self._segment.data_bytes = found.position + header.chunk_bytes

    def _note_records(self, found: FoundChunk) -> None:
        header = found.header
        records = chunk_records(found.data, header, self._identity.salt)
        wrong = "its records do not add up" if records is None else contradiction(header, records)
        if wrong:
            offsets = (header.base_offset, header.end_offset)
            self._add("wrong-chunk", wrong, found.position, offsets=offsets)
        if records is not None and header.record_count <= header.last_offset_delta:
            self._contents.gaps += missing_offsets(header.base_offset, records.offsets)

    def _note_step_back(self, found: FoundChunk) -> None:
        """Report append times that step back within the segment; only its first may step back."""
        last_ns, first_ns = self._segment.summary.last_timestamp_ns, found.header.first_timestamp_ns
        text = (
            f"its append time {first_ns} is less than {last_ns} before it in the same segment: "
            "the messages are whole, but searches by time may miss some of them"
        )
        self._add("times-step-back", text, found.position)

    def _check_footer(self) -> None:
        footer = self._contents.footer
        summary = self._segment.summary
        segment = self._segment
        segment.is_sealed = footer is not None
        if footer is None:
            if not self._place.is_last:
                self._add("footer-missing", "a sealed segment without a footer", segment.data_bytes)
            return
        if self._place.name.generation:
            # Its end and its last time include the records that compaction has removed.
            summary = replace(
                summary,
                first_offset=summary.first_offset if summary.record_count else footer.end_offset,
                end_offset=max(summary.end_offset, footer.end_offset),
                last_timestamp_ns=(
                    max(summary.last_timestamp_ns, footer.last_timestamp_ns)
                    if summary.record_count
                    else footer.last_timestamp_ns
                ),
            )
        has_faults = any(each.path == segment.path for each in self._problems.kept)
        if footer != summary and not has_faults:
            wrong = [
                f"{each.name} is {getattr(footer, each.name)}, found {getattr(summary, each.name)}"
                for each in fields(SegmentSummary)
                if each.compare and getattr(footer, each.name) != getattr(summary, each.name)
            ]
            self._add("footer-wrong", "; ".join(wrong), segment.data_bytes)

    def _check_gaps(self) -> None:
        if not self._place.is_dense:
            return
        footer = self._contents.footer
        end = self._segment.summary.end_offset
        if footer is not None and footer.end_offset > end:
            self._contents.gaps.append((end, footer.end_offset))
        for start, stop in uncovered(self._contents.gaps, self._contents.explained):
            text = f"offsets [{start}, {stop}) are not in the log, and nothing explains why"
            self._add("offsets-missing", text, None, offsets=(start, stop))

    def _add(
        self,
        kind: str,
        text: str,
        position: int | None,
        *,
        level: Level = Level.DAMAGE,
        offsets: tuple[int, int] | None = None,
    ) -> None:
        path = self._segment.path
        self._problems.add(Problem(level, kind, path, text, position, offsets))


def explained_ranges(found: FoundChunk) -> tuple[list[tuple[int, int]], bool]:
    """Return the offsets that a control chunk declares missing, and whether it is a footer."""
    payload = found.data[CHUNK_HEADER_BYTES:]
    if not found.header.is_control:
        return [], False
    if decode_footer(payload) is not None:
        return decode_removed(payload)[0], True
    if len(payload) == GAP_MARKER_BYTES:
        control, _, _, start = GAP_MARKER.unpack(payload)
        if control == CONTROL_GAP:
            return [(start, found.header.base_offset)], False
    return [], False


def missing_offsets(start: int, offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Return the gaps between ascending offsets; the first offset may be above `start`."""
    missing = []
    for offset in offsets:
        if offset > start:
            missing.append((start, offset))
        start = offset + 1
    return missing


def uncovered(
    gaps: list[tuple[int, int]], explained: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the parts of the gaps that are not explained."""
    left = []
    known = sorted(explained)
    first = 0
    for start, end in sorted(gaps):
        while first < len(known) and known[first][1] <= start:
            first += 1
        at, position = start, first
        while position < len(known) and known[position][0] <= at < end:
            at = max(at, known[position][1])
            position += 1
        if at < end:
            left.append((at, end))
    return left
