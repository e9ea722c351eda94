"""Rewriting a damaged segment: its valid chunks, a note for each loss, and a footer.

The new file is the next generation of the same segment. As in a compaction, it takes two steps:

1. `rewrite_segment` writes the file under a name that readers ignore and a start removes. The log
   is unchanged. The caller then stores a copy of the old file.
2. `swap_in` renames the file, and only then removes the old one. After a crash in between, both
   exist and the newest valid one counts; after a failure, only the old one does.
Source: docs/log-format.md, sections 1, 6 and 9.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from appendlog.checking.chunk_records import chunk_records, contradiction
from appendlog.checking.segment_check import explained_ranges, missing_offsets, uncovered
from appendlog.checking.segment_walk import FoundChunk, walk_segment
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.chunk import decode_chunk_header, encode_gap_marker
from appendlog.layout.format import CHUNK_HEADER_BYTES, GAP_LOST, REMOVED_RANGES_MAX
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
    segment_header_bytes,
)
from appendlog.layout.summary import SegmentSummary, decode_removed, encode_footer
from appendlog.reclaim.removed_ranges import removed_ranges
from appendlog.segments.scan import SegmentScan
from appendlog.segments.sealed import read_footer
from appendlog.segments.segment import COMPACTING_SUFFIX, SegmentName


@dataclass(slots=True)
class RewrittenSegment:
    """Result of rewriting a segment.

    Attributes:
        name: Name of the new file once it is in its place.
        path: Path of the file until then, without the name of a segment.
        lost: Offsets `[start, end)` that are not in it, and were not known to be missing.
        dropped: Number of chunks left out despite a valid CRC, because their records contradict
            them.
        end_offset: Offset where the segment ends.
    """

    name: SegmentName
    path: Path
    lost: list[tuple[int, int]] = field(default_factory=list)
    dropped: int = 0
    end_offset: int = 0


def rewrite_segment(
    directory: Path,
    name: SegmentName,
    identity: LogIdentity,
    filesystem: FileSystem,
    *,
    end_offset: int,
    previous_timestamp_ns: int,
) -> RewrittenSegment:
    """Write the next generation of a segment, sealed; the log itself is unchanged.

    The file is on the disk when this returns, but not under its name. The caller either passes it
    to `swap_in` or removes it.

    Args:
        directory: Directory of the log.
        name: Name of the segment.
        identity: Identity of the log.
        filesystem: File operations of the log.
        end_offset: Lowest offset where the segment may end: the next one's base offset, or the end
            of the offsets that were ever assigned.
        previous_timestamp_ns: Last append time of the segments before; used if the segment has
            no readable header.

    Raises:
        OSError: A file operation failed.
    """
    path = directory / name.file_name
    new = SegmentName(name.base_offset, name.generation + 1)
    target = directory / f"{new.stem}{COMPACTING_SUFFIX}"
    descriptors = Descriptors(1)
    out = filesystem.open(target, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        with descriptors.borrow(filesystem, path, os.O_RDONLY) as descriptor:
            scan = SegmentScan(filesystem, descriptor, filesystem.size(descriptor), identity.salt)
            old = decode_segment_header(scan.read(0, SEGMENT_HEADER_BYTES_MAX), path)
            writer = _Writer(filesystem, out, identity, new, old, previous_timestamp_ns, target)
            footer = read_footer(filesystem, descriptor, identity.salt, name.base_offset)
            if footer is not None:
                writer.note_removed(footer[1])
            # Without the footer this is unknown; assuming it costs searches time, but is never
            # wrong.
            writer.steps_back = footer is None or footer[0].steps_back
            size = filesystem.size(descriptor)
            start = min(segment_header_bytes(identity), size)
            for found in walk_segment(scan, start, size, name.base_offset):
                if isinstance(found, FoundChunk):
                    writer.take(found)
        rewritten = writer.finish(end_offset)
        filesystem.fsync(out)
    except OSError:
        with suppress(OSError):
            filesystem.unlink(target)
        raise
    finally:
        filesystem.close(out)
        descriptors.close()
    return rewritten


def swap_in(
    directory: Path, old: SegmentName, rewritten: RewrittenSegment, filesystem: FileSystem
) -> None:
    """Replace the old segment with the rewritten one; removes the old file.

    Durable when this returns.

    Args:
        directory: Directory of the log.
        old: Name of the segment that was rewritten; its index is removed too.
        rewritten: Result of `rewrite_segment`.
        filesystem: File operations of the log.

    Raises:
        OSError: A file operation failed; the log has one of the two segments.
    """
    target = directory / rewritten.name.file_name
    filesystem.rename(rewritten.path, target)
    try:
        filesystem.sync_directory(directory)
        filesystem.unlink(directory / old.file_name)
    except OSError:
        with suppress(OSError):
            filesystem.unlink(target)
        raise
    index = directory / old.index_name
    if filesystem.exists(index):
        filesystem.unlink(index)
    filesystem.sync_directory(directory)


class _Writer:
    """Writer of one segment, chunk by chunk."""

    def __init__(
        self,
        filesystem: FileSystem,
        descriptor: int,
        identity: LogIdentity,
        name: SegmentName,
        old: SegmentHeader | None,
        previous_timestamp_ns: int,
        target: Path,
    ) -> None:
        if old is not None and old.identity == identity:
            previous_timestamp_ns = old.previous_timestamp_ns
        self._filesystem = filesystem
        self._descriptor = descriptor
        self._salt = identity.salt
        base = name.base_offset
        self._summary = SegmentSummary(base, base, previous_timestamp_ns)
        self._explained: list[tuple[int, int]] = []
        self._gaps: list[tuple[int, int]] = []
        self._removed: list[tuple[int, int]] = []
        self._are_joined = False
        self.steps_back = False
        self._result = RewrittenSegment(name, target)
        created_ns = old.created_ns if old is not None else time.time_ns()
        header = SegmentHeader(identity, base, created_ns, previous_timestamp_ns, name.generation)
        self._position = 0
        self._write(encode_segment_header(header))

    def note_removed(self, footer: bytes) -> None:
        """Take over the ranges that compaction removed; `footer` is the whole footer chunk."""
        self._removed, self._are_joined = decode_removed(footer[CHUNK_HEADER_BYTES:])
        self._explained += self._removed

    def take(self, found: FoundChunk) -> None:
        """Take over a chunk, unless its records contradict it; a footer is made again."""
        header = found.header
        ranges, is_footer = explained_ranges(found)
        self._explained += ranges
        if is_footer:
            return
        if not header.is_control:
            records = chunk_records(found.data, header, self._salt)
            if records is None or contradiction(header, records):
                self._result.dropped += 1
                return
            missing = missing_offsets(header.base_offset, records.offsets)
            # Removed or lost is unknown, but no chunk ever had them: count them as removed.
            self._removed += uncovered(missing, self._explained)
        starts = ranges[0][0] if header.is_control and ranges else header.base_offset
        # The note comes before the chunk, so that a reader finds it in its place.
        self._note_missing_before(starts)
        self._write(found.data)
        self._summary.add(header)

    def finish(self, end_offset: int) -> RewrittenSegment:
        """Write the end of the segment and the footer."""
        self._note_missing_before(end_offset)
        removed, are_joined = _bounded(sorted(self._removed))
        are_joined |= self._are_joined
        self._summary.steps_back = self.steps_back
        self._write(encode_footer(self._summary, self._salt, removed, are_joined=are_joined))
        result = self._result
        result.lost = uncovered(self._gaps, self._explained)
        result.end_offset = self._summary.end_offset
        return result

    def _note_missing_before(self, offset: int) -> None:
        """Note the offsets missing before an offset, unless compaction removed them."""
        summary = self._summary
        if offset <= summary.end_offset:
            return
        if uncovered([(summary.end_offset, offset)], self._explained):
            self._note_lost(offset)
            return
        summary.end_offset = offset
        if not summary.record_count:
            summary.first_offset = offset

    def _note_lost(self, end: int) -> None:
        summary = self._summary
        self._gaps.append((summary.end_offset, end))
        marker = encode_gap_marker(
            summary.end_offset, end, GAP_LOST, summary.last_timestamp_ns, self._salt
        )
        self._write(marker)
        summary.add(decode_chunk_header(marker))

    def _write(self, data: bytes) -> None:
        self._position = self._filesystem.write_all(
            self._descriptor, [data], self._position, sync=False
        )


def _bounded(ranges: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], bool]:
    """Return at most as many ranges as a footer can list, and whether some were joined."""
    if len(ranges) <= REMOVED_RANGES_MAX:
        return ranges, False
    between = [(before[1], after[0]) for before, after in pairwise(ranges)]
    return removed_ranges(between, ranges[0][0], ranges[-1][1], REMOVED_RANGES_MAX)
