"""Recovery of one segment: which bytes are chunks, which are torn, which are damaged.

Torn is not damaged. A crash leaves a half-written tail; that is normal, and recovery cuts it off
(its bytes go to a `.torn` file). Bytes that cannot be the tail of a crash are damage:
1. a valid chunk of this log follows them, or
2. they are below the durable end, so they were on the disk once, or
3. the segment is not the last one: it was wholly on the disk before the next was made.

Recovery never cuts damage: it copies the bytes to a `.damaged` file, reports their offsets as lost,
and reading continues after them. So no log is ever shortened silently.

Source: docs/log-format.md, section 9.
"""

import os
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.chunk import ChunkHeader
from appendlog.layout.format import CONTROL_GAP, GAP_LOST, GAP_MARKER, GAP_MARKER_BYTES
from appendlog.layout.records import SUM_BASE_OFFSET, SUM_FIRST_TIMESTAMP, SUMS
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    SegmentHeader,
    decode_segment_header,
    segment_header_bytes,
)
from appendlog.layout.summary import SegmentSummary, decode_footer
from appendlog.recovery.known_sums import index_at_durable_end
from appendlog.recovery.recovery_report import RecoveryReport
from appendlog.segments.durable_end import DurableEnd
from appendlog.segments.index import ActiveIndex
from appendlog.segments.scan import WINDOW_BYTES, SegmentScan
from appendlog.segments.segment import Segment, SegmentName

_NEAR_BYTES: Final = 16 << 10
"""Bytes to read at once if only a few chunks are needed."""


@dataclass(frozen=True, slots=True)
class RecoveryContext:
    """Arguments and results that the recoveries of all segments of one log share.

    Attributes:
        directory: Directory of the log.
        identity: Identity of the log.
        filesystem: File operations of the log.
        descriptors: Cache of open files.
        index_interval_bytes: Minimum distance of entries in the index of the active segment.
        report: Report, which recovery fills in.
        settled_floor: Offset below which all is settled: segments missing there are not lost.
        known_end: Offset up to which the log is known to have reached, according to other files.
        now_ns: Time of day, ns since 1970 UTC.
    """

    directory: Path
    identity: LogIdentity
    filesystem: FileSystem
    descriptors: Descriptors
    index_interval_bytes: int
    report: RecoveryReport
    settled_floor: int
    known_end: int
    now_ns: int


class SegmentRecovery:
    """Scan of one segment, which classifies its bytes.

    Args:
        context: Context of the log.
        name: Name of the segment.
        durable_position: Number of bytes that are known to have been on the disk once.
        is_last: Whether it is the last segment; only that one can have a torn tail.
        previous_timestamp_ns: Last append time of the segments before.
        durable: Durable end of the log, if it is in this segment.
        header: Its header, if it was read before.
    """

    def __init__(
        self,
        context: RecoveryContext,
        name: SegmentName,
        durable_position: int,
        is_last: bool,
        previous_timestamp_ns: int,
        durable: DurableEnd | None = None,
        header: SegmentHeader | None = None,
    ) -> None:
        self._context = context
        self._name = name
        self._durable_position = durable_position
        self._is_last = is_last
        self._durable = durable
        self._header = header
        self._has_damage = False
        base = name.base_offset
        summary = SegmentSummary(base, base, previous_timestamp_ns)
        header_bytes = segment_header_bytes(context.identity)
        self._segment = Segment(context.directory, name, header_bytes, summary)
        self._segment.begun_ns = context.now_ns
        self._index = ActiveIndex(base, context.index_interval_bytes)

    def run(self) -> Segment | None:
        """Return the segment; None if its header was torn and the file is removed.

        Raises:
            UnsupportedFormatError: The segment is of another format version.
            OSError: A file operation failed.
        """
        context, segment = self._context, self._segment
        with context.descriptors.borrow(context.filesystem, segment.path) as descriptor:
            size = context.filesystem.size(descriptor)
            scan = SegmentScan(context.filesystem, descriptor, size, context.identity.salt)
            near = SegmentScan(
                context.filesystem, descriptor, size, context.identity.salt, _NEAR_BYTES
            )
            position = self._after_header(near, scan, size)
            if position is not None:
                position = self._known_until(near, size) or position
                context.report.scanned_bytes += size - position
                end = self._scan_chunks(scan, position, size)
                self._cut(descriptor, end, size)
        if position is None:
            self._remove()
            return None
        segment.size_bytes = end
        if not segment.is_sealed:
            segment.data_bytes = end
        if not self._is_last:
            self._seal_in_memory()
        segment.index = self._index
        return segment

    def _seal_in_memory(self) -> None:
        """Treat a segment that lost its footer as sealed: nothing is appended to it."""
        if not self._segment.is_sealed:
            self._segment.is_sealed = True
            # Only the footer could show it, so assume the worst.
            self._segment.summary.steps_back = True
            if not self._has_damage:
                self._keep_damage(self._segment.size_bytes, self._segment.size_bytes)

    def _after_header(self, near: SegmentScan, scan: SegmentScan, size: int) -> int | None:
        """Return the position of the first chunk, or None if not even the header is whole."""
        segment, context = self._segment, self._context
        header = self._header or decode_segment_header(
            near.read(0, SEGMENT_HEADER_BYTES_MAX), segment.path
        )
        if header is not None and header.identity == context.identity:
            segment.summary.last_timestamp_ns = header.previous_timestamp_ns
            segment.begun_ns = min(segment.begun_ns, header.created_ns)
            return segment.header_bytes
        found = self._segment_chunk(scan)
        if found is None and self._is_last and not self._durable_position:
            return None
        self._keep_damage(0, min(segment.header_bytes, size))
        return min(segment.header_bytes, size)

    def _known_until(self, scan: SegmentScan, size: int) -> int | None:
        """Return the durable end if the sums up to it can be trusted, and use them."""
        durable = self._durable
        if durable is None or durable.summary is None or self._has_damage:
            return None
        index = index_at_durable_end(
            self._context.filesystem,
            self._segment,
            scan,
            size,
            durable,
            self._index,
            self._context.identity.salt,
        )
        if index is None:
            # Discard the index: it holds entries from wrong chunks.
            self._index = ActiveIndex(self._name.base_offset, self._context.index_interval_bytes)
            return None
        self._index = index
        self._segment.summary = durable.summary
        return durable.position

    def _segment_chunk(self, scan: SegmentScan) -> int | None:
        base = self._name.base_offset
        if scan.chunk_at(self._segment.header_bytes, base):
            return self._segment.header_bytes
        return scan.find_chunk(0, base)

    def _scan_chunks(self, scan: SegmentScan, position: int, size: int) -> int:
        """Add up all chunks; return the position where the file is to end."""
        summary = self._segment.summary
        interval_bytes = self._context.index_interval_bytes
        while position < size:
            stop = add_stretch(scan, position, summary, self._index, interval_bytes)
            if stop > position:
                self._segment.is_sealed = False
                position = stop
                continue
            chunk = scan.chunk_at(position, summary.end_offset)
            if chunk is not None:
                self._add(scan, position, chunk)
                position += chunk.chunk_bytes
                continue
            found = scan.find_chunk(position, summary.end_offset)
            if found is None:
                return self._end_of_chunks(position, size)
            self._keep_damage(position, found)
            chunk = scan.chunk_at(found, summary.end_offset)
            if chunk is not None:
                self._context.report.add_lost(summary.end_offset, chunk.base_offset)
            position = found
        if self._durable_position > size and self._is_last:
            self._keep_damage(size, size)
        return position

    def _end_of_chunks(self, position: int, size: int) -> int:
        """Classify bytes that no valid chunk follows; return where the file is to end."""
        damage_end = size if not self._is_last else min(self._durable_position, size)
        if position >= damage_end and self._durable_position <= size:
            return position
        damage_end = max(damage_end, position)
        self._keep_damage(position, damage_end)
        self._segment.is_sealed = False
        return damage_end

    def _add(self, scan: SegmentScan, position: int, chunk: ChunkHeader) -> None:
        segment = self._segment
        segment.is_sealed = False
        if chunk.is_control:
            payload = scan.payload(position, chunk)
            if (footer := decode_footer(payload)) is not None:
                segment.is_sealed = True
                segment.data_bytes = position
                segment.summary.steps_back = footer.steps_back
            elif len(payload) == GAP_MARKER_BYTES:
                control, _, reason, start = GAP_MARKER.unpack(payload)
                if control == CONTROL_GAP and reason == GAP_LOST:
                    segment.is_whole = False
                    self._context.report.add_noted(start, chunk.base_offset)
        else:
            before_ns = segment.summary.time_before(chunk.first_timestamp_ns)
            self._index.add(chunk.base_offset, position, before_ns)
        segment.summary.add(chunk)

    def _keep_damage(self, start: int, stop: int) -> None:
        """Count a damaged place and copy its bytes to a file, once."""
        report = self._context.report
        self._has_damage = True
        self._segment.is_whole = False
        report.damaged_chunks += 1
        report.damaged_bytes += stop - start
        self._copy(start, stop, f"{self._name.file_name}.{start}-{stop}.damaged")

    def _cut(self, descriptor: int, end: int, size: int) -> None:
        """Cut a torn tail off, after its bytes are safe in a `.torn` file."""
        if end >= size:
            return
        filesystem, directory = self._context.filesystem, self._context.directory
        self._context.report.cut_bytes += size - end
        self._copy(end, size, f"{self._name.file_name}.{end}.torn")
        filesystem.sync_directory(directory)
        filesystem.truncate(descriptor, end)
        filesystem.fsync(descriptor)

    def _remove(self) -> None:
        """Remove a file that a crash left without a whole header."""
        context, segment = self._context, self._segment
        with context.descriptors.borrow(context.filesystem, segment.path) as descriptor:
            size = context.filesystem.size(descriptor)
        context.report.cut_bytes += size
        self._copy(0, size, f"{self._name.file_name}.0.torn")
        context.descriptors.evict(context.filesystem, segment.path)
        if context.filesystem.exists(segment.index_path):
            context.filesystem.unlink(segment.index_path)
        context.filesystem.unlink(segment.path)
        context.filesystem.sync_directory(context.directory)

    def _copy(self, start: int, stop: int, file_name: str) -> None:
        """Copy bytes of the segment to another file and sync it."""
        context = self._context
        filesystem = context.filesystem
        target = context.directory / file_name
        if start == stop or (file_name.endswith(".damaged") and filesystem.exists(target)):
            return
        copy = filesystem.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            with context.descriptors.borrow(filesystem, self._segment.path) as descriptor:
                for position in range(start, stop, WINDOW_BYTES):
                    size = min(WINDOW_BYTES, stop - position)
                    data = filesystem.read_all(descriptor, size, position)
                    filesystem.write_all(copy, [data], position - start, sync=False)
            filesystem.fsync(copy)
        finally:
            filesystem.close(copy)


def add_stretch(
    scan: SegmentScan,
    position: int,
    summary: SegmentSummary,
    index: ActiveIndex,
    interval_bytes: int,
) -> int:
    """Add the whole data chunks of one index interval to a segment's sums and its index.

    Args:
        scan: Scan of the segment.
        position: Position of the first chunk.
        summary: Sums of the chunks before it.
        index: Index of the chunks before it.
        interval_bytes: Minimum distance of entries in the index.

    Returns:
        The position after them; `position` if something else is there.

    Raises:
        OSError: The segment cannot be read.
    """
    sums = array("q", [0]) * SUMS
    stop = scan.sum_chunks(position, position + interval_bytes, summary.end_offset, sums)
    if stop > position:
        before_ns = summary.time_before(sums[SUM_FIRST_TIMESTAMP])
        index.add(sums[SUM_BASE_OFFSET], position, before_ns)
        summary.add_sums(sums)
    return stop
