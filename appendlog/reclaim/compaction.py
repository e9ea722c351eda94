"""Compaction: rewriting a sealed segment that a few old messages pin; copies live records only.

1. `rewrite` reads the sealed segment, which never changes, and writes its live records to another
   file, `<base>-<generation>.compacting`. That file is then wholly on the disk. Nothing else is
   changed, and no reader looks at that file.
2. `swap_in` renames the file, syncs the name, puts the new segment into the log's list, and only
   then removes the old one.

So at any moment the directory holds the old segment, or both, or the new one, each whole. Of both,
the newer one counts. They are equivalent: what is missing in the new one was settled on the disk
before. Offsets, append times, flags, transaction ids and messages stay unchanged. A chunk whose
records are all live is copied byte for byte.

Both functions belong to the thread that removes settled segments of this log, closes and deletes it
(the flusher's maintenance does one of these at a time for a log). At the same time one thread may
append, which adds to the list after the segment, and any thread may read: it finds either segment
whole.

A segment with any damage is not compacted: its bytes are evidence.

Source: docs/log-format.md, section 10.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appendlog.errors import LogError
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.chunk import ChunkHeader, decode_chunk_header
from appendlog.layout.format import REMOVED_RANGES_MAX
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    SegmentHeader,
    decode_segment_header,
    encode_segment_header,
)
from appendlog.layout.summary import SegmentSummary, encode_footer
from appendlog.reclaim.live_records import without_settled
from appendlog.reclaim.removal import remove_segments
from appendlog.reclaim.removed_ranges import Range, removed_ranges
from appendlog.segments.index import ActiveIndex
from appendlog.segments.scan import SegmentScan
from appendlog.segments.segment import COMPACTING_SUFFIX, Segment, SegmentName
from appendlog.segments.segment_list import SegmentList

WRITE_BYTES: Final = 1 << 20
"""Number of bytes that are gathered for a write; a larger chunk is written alone."""


class CompactionAbandonedError(LogError):
    """A segment was not rewritten; everything is unchanged."""


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """Arguments that the rewriting of all segments of one log shares.

    Attributes:
        directory: Directory of the log.
        identity: Identity of the log.
        filesystem: File operations of the log.
        descriptors: Cache of open files.
        index_interval_bytes: Minimum distance between two index entries.
    """

    directory: Path
    identity: LogIdentity
    filesystem: FileSystem
    descriptors: Descriptors
    index_interval_bytes: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """Rewritten segment whose file has not got its name yet.

    Attributes:
        source: Old segment, which is in the log.
        target: New segment, which is to replace it.
        index: Index of the target; not in a file yet.
        path: Present path of the target's bytes, which are on the disk.
    """

    source: Segment
    target: Segment
    index: ActiveIndex
    path: Path


def rewrite(
    context: CompactionContext, source: Segment, live: Sequence[Range], live_bytes_max: int
) -> Compacted:
    """Write the live records of a sealed segment to another file, and sync that.

    Args:
        context: Context of the log.
        source: Sealed segment that is not the last one of its log.
        live: Ranges of offsets that are not settled on the disk, ascending and disjoint.
        live_bytes_max: Limit of live bytes; with more, a rewrite frees too little.

    Raises:
        CompactionAbandonedError: Damage, too many live bytes, or another file has the new name.
        OSError: A file operation failed.
    """
    name = SegmentName(source.base_offset, source.name.generation + 1)
    path = context.directory / f"{name.stem}{COMPACTING_SUFFIX}"
    filesystem = context.filesystem
    if filesystem.exists(context.directory / name.file_name):
        # That file is not a segment of this log, or it would be the source. Do not touch it.
        raise CompactionAbandonedError(f"{source.path}: {name.file_name} is there already")
    reading = filesystem.open(source.path, os.O_RDONLY)
    try:
        writing = filesystem.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            rewriting = _Rewriting(context, source, name, reading, writing)
            rewriting.run(live, live_bytes_max)
            filesystem.fsync(writing)
        except BaseException:
            with suppress(OSError):
                filesystem.unlink(path)
            raise
        finally:
            filesystem.close(writing)
    finally:
        filesystem.close(reading)
    return Compacted(source, rewriting.target, rewriting.index, path)


class _Rewriting:
    """Pass over the chunks of a segment."""

    def __init__(
        self,
        context: CompactionContext,
        source: Segment,
        name: SegmentName,
        reading: int,
        writing: int,
    ) -> None:
        self._context = context
        self._source = source
        self._writing = writing
        self._buffers: list[bytes] = []
        self._buffered_bytes = 0
        self._scan = SegmentScan(
            context.filesystem, reading, source.data_bytes, context.identity.salt
        )
        header = self._header(reading, name)
        summary = SegmentSummary(
            source.base_offset, source.base_offset, header.previous_timestamp_ns
        )
        encoded = encode_segment_header(header)
        self.target = Segment(context.directory, name, len(encoded), summary)
        self.target.size_bytes = 0
        self.target.begun_ns = source.begun_ns
        self.index = ActiveIndex(source.base_offset, context.index_interval_bytes)
        self._put(encoded)

    def run(self, live: Sequence[Range], live_bytes_max: int) -> None:
        """Copy the live records and seal the result."""
        source = self._source
        target = self.target
        summary = target.summary
        for chunk, header in self._live_chunks(live):
            if not header.is_control:
                before_ns = summary.time_before(header.first_timestamp_ns)
                self.index.add(header.base_offset, target.size_bytes, before_ns)
            summary.add(header)
            self._put(chunk)
            if target.size_bytes > live_bytes_max:
                raise CompactionAbandonedError(
                    f"{source.path}: more than {live_bytes_max} bytes are live"
                )
        summary.end_offset = source.end_offset
        if not summary.record_count:
            summary.first_offset = source.end_offset
        # The time of the whole segment, not of the remaining records: the next one may begin with
        # it.
        summary.last_timestamp_ns = source.summary.last_timestamp_ns
        summary.steps_back = source.summary.steps_back
        target.data_bytes = target.size_bytes
        removed, are_joined = removed_ranges(
            live, source.base_offset, source.end_offset, REMOVED_RANGES_MAX
        )
        salt = self._context.identity.salt
        self._put(encode_footer(summary, salt, removed, are_joined=are_joined))
        self._write()
        target.is_sealed = True

    def _header(self, reading: int, name: SegmentName) -> SegmentHeader:
        data = self._context.filesystem.read_all(reading, SEGMENT_HEADER_BYTES_MAX, 0)
        old = decode_segment_header(data, self._source.path)
        if old is None or old.identity != self._context.identity:
            raise self._damaged(0)
        return SegmentHeader(
            old.identity,
            old.base_offset,
            old.created_ns,
            old.previous_timestamp_ns,
            name.generation,
        )

    def _live_chunks(self, live: Sequence[Range]) -> Iterator[tuple[bytes, ChunkHeader]]:
        """Yield the chunks to keep, unchanged or without their settled records."""
        position = self._source.header_bytes
        minimum = self._source.base_offset
        at = 0
        while position < self._source.data_bytes:
            header = self._scan.chunk_at(position, minimum)
            if header is None:
                raise self._damaged(position)
            while at < len(live) and live[at][1] <= header.base_offset:
                at += 1
            is_live = at < len(live) and live[at][0] < header.end_offset
            if is_live or header.is_control:
                chunk = self._scan.read(position, header.chunk_bytes)
                is_whole = header.is_control or (
                    live[at][0] <= header.base_offset and header.end_offset <= live[at][1]
                )
                kept: bytes | None = chunk
                if not is_whole:
                    kept = self._without_settled(chunk, position, live, at)
                if kept is not None:
                    yield kept, decode_chunk_header(kept)
            position += header.chunk_bytes
            minimum = header.end_offset
        if position != self._source.data_bytes:
            raise self._damaged(position)

    def _without_settled(
        self, chunk: bytes, position: int, live: Sequence[Range], at: int
    ) -> bytes | None:
        try:
            return without_settled(chunk, self._context.identity.salt, live, at)
        except ValueError:
            raise self._damaged(position) from None

    def _damaged(self, position: int) -> CompactionAbandonedError:
        return CompactionAbandonedError(f"{self._source.path}: damaged at position {position}")

    def _put(self, data: bytes) -> None:
        self._buffers.append(data)
        self._buffered_bytes += len(data)
        self.target.size_bytes += len(data)
        if self._buffered_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        position = self.target.size_bytes - self._buffered_bytes
        self._context.filesystem.write_all(self._writing, self._buffers, position, sync=False)
        self._buffers.clear()
        self._buffered_bytes = 0


def swap_in(
    context: CompactionContext, segments: SegmentList, compacted: Compacted
) -> tuple[int, list[Segment]]:
    """Replace the old segment with the rewritten one.

    If that is not possible, the old segment stays in its place.

    Returns:
        The bytes freed, and the old segment if its files could not be removed.

    Args:
        context: Context of the log.
        segments: Segments of the log.
        compacted: Result of `rewrite`, for this log.

    Raises:
        OSError: The new file could not be put in its place.
    """
    filesystem = context.filesystem
    source = compacted.source
    target = compacted.target
    try:
        filesystem.rename(compacted.path, target.path)
        filesystem.sync_directory(context.directory)
    except OSError:
        # The old file still exists, whatever happened to the new name: a start accepts either.
        for path in (compacted.path, target.path):
            with suppress(OSError):
                filesystem.unlink(path)
        raise
    _store_index(context, compacted)
    segments.replace(source, target)
    # If the old name comes back after a power cut, it is an older generation and is ignored.
    left: list[Segment] = []
    with suppress(OSError):
        left = remove_segments(context.directory, [source], filesystem, context.descriptors)
    return source.size_bytes - target.size_bytes, left


def _store_index(context: CompactionContext, compacted: Compacted) -> None:
    """Write the index; a missing or torn one only costs time."""
    with suppress(OSError):
        compacted.index.store(
            context.filesystem, compacted.target.index_path, context.identity.salt
        )
