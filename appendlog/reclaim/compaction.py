"""Rewriting a sealed segment that a few old messages pin: only what is live is copied.

1. `rewrite` reads the sealed segment, which never changes, and writes what is live of it to a
   file of its own, `<base>-<generation>.compacting`, which is then wholly on the disk. Nothing
   else is touched, and nobody looks at that file.
2. `swap_in` gives the file its name, puts the name on the disk, takes the new segment into the
   log's list, and only then removes the old one.

So at any moment the directory holds the old segment, or both, or the new one, each whole. Of
both the newer counts, and they say the same: what is missing in it was settled on the disk
before. Offsets, append times, flags, transaction ids and messages are as they were; a chunk
that is live as a whole is copied byte for byte.

Both belong to the thread that removes settled segments of this log, closes and deletes it (the
flusher's maintenance does one of these at a time for one log). Beside it one thread may append,
which adds to the list behind the segment, and any may read: they know either segment whole.

A segment with any damage is left alone: its bytes are evidence.

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
"""Gathered before they are written; a larger chunk is written alone."""


class CompactionAbandonedError(LogError):
    """A segment was not rewritten; everything is as it was."""


@dataclass(frozen=True, slots=True)
class CompactionContext:
    """What the rewriting of every segment of one log needs.

    Attributes:
        directory: Of the log.
        identity: Of the log.
        filesystem: All file calls go through it.
        descriptors: Open files.
        index_interval_bytes: Least distance between two index entries.
    """

    directory: Path
    identity: LogIdentity
    filesystem: FileSystem
    descriptors: Descriptors
    index_interval_bytes: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """A segment rewritten, whose file has not got its name yet.

    Attributes:
        source: The segment as it is in the log.
        target: What is to take its place.
        index: Of the target; not in a file yet.
        path: Where the target's bytes are now, on the disk.
    """

    source: Segment
    target: Segment
    index: ActiveIndex
    path: Path


def rewrite(
    context: CompactionContext, source: Segment, live: Sequence[Range], live_bytes_max: int
) -> Compacted:
    """Write what is live of a sealed segment to a file of its own, and put that on the disk.

    Args:
        context: Of the log.
        source: Sealed, and not the last one of its log.
        live: Offsets that are not settled on the disk, ascending and disjoint.
        live_bytes_max: More than this is not worth it.

    Raises:
        CompactionAbandonedError: Damage, too much is live, or another file has the new name.
        OSError: A file operation failed.
    """
    name = SegmentName(source.base_offset, source.name.generation + 1)
    path = context.directory / f"{name.stem}{COMPACTING_SUFFIX}"
    filesystem = context.filesystem
    if filesystem.exists(context.directory / name.file_name):
        # No segment of this log, or it would be the source. To be left alone, as each start does.
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
    """One pass over the chunks of a segment."""

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
        """Copy what is live, and seal it."""
        source, target, summary = self._source, self.target, self.target.summary
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
        # Of the segment, not of what is left of it: the next one may begin with that time.
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
        """Yield the chunks to keep, each as it is or without what is settled."""
        position, minimum = self._source.header_bytes, self._source.base_offset
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


def swap_in(context: CompactionContext, segments: SegmentList, compacted: Compacted) -> int:
    """Let a rewritten segment take the place of the old one; return the bytes freed.

    What cannot be done leaves the old segment in its place.

    Args:
        context: Of the log.
        segments: Of the log.
        compacted: Of `rewrite`, for this log.

    Raises:
        OSError: The new one could not be put in its place.
    """
    filesystem, source, target = context.filesystem, compacted.source, compacted.target
    try:
        filesystem.rename(compacted.path, target.path)
        filesystem.sync_directory(context.directory)
    except OSError:
        # The old one is still there whatever became of the name: a start takes either.
        for path in (compacted.path, target.path):
            with suppress(OSError):
                filesystem.unlink(path)
        raise
    _store_index(context, compacted)
    segments.replace(source, target)
    # A name that comes back after a power cut is that of an older generation, and loses.
    with suppress(OSError):
        remove_segments(context.directory, [source], filesystem, context.descriptors)
    return source.size_bytes - target.size_bytes


def _store_index(context: CompactionContext, compacted: Compacted) -> None:
    """Write the index; one that is missing or torn only costs time."""
    with suppress(OSError):
        compacted.index.store(
            context.filesystem, compacted.target.index_path, context.identity.salt
        )
