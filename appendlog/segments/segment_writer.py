"""Appending to the segments of one log: writes, rolls, syncs, and the durable end.

For one thread at a time. On the hot path an append is two system calls: one pwritev that includes
its own sync (RWF_DSYNC), and one pwrite of the `end` file. Such an append can be taken apart:
`prepare` and `complete` touch no file, and what lies between them needs nothing of the log.

Order of syncs:
- The data and footer of a segment are on the disk before the next segment's file is made.
- The data of a new file, its name and its directories are on the disk before anything in it is
  called durable. The data come first, because then most file systems have little left to do for
  the names.
- All of that is on the disk before the `end` file says so.
"""

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from appendlog.append import Append
from appendlog.errors import LogFailedError
from appendlog.files.durable_directories import DurableDirectories, existing_root
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.chunk import (
    ChunkHeader,
    decode_chunk_header,
    encode_gap_marker,
    own_header,
)
from appendlog.layout.format import (
    CHUNK_HEADER_BYTES,
    CHUNK_PREFIX_BYTES,
    GAP_SKIPPED,
    KIND_CONTROL,
    U32_MAX,
)
from appendlog.layout.large_chunk import Chunk, LargeChunk
from appendlog.layout.segment_header import SegmentHeader, encode_segment_header
from appendlog.layout.summary import SegmentSummary, encode_footer
from appendlog.options import LogOptions
from appendlog.segments.append_clock import is_ahead
from appendlog.segments.durable_end import DurableEndFile
from appendlog.segments.index import INDEX_GROUP_ENTRIES, ActiveIndex
from appendlog.segments.rollback import roll_back
from appendlog.segments.segment import Segment, SegmentName
from appendlog.segments.segment_write import NO_PAGES, WRITE_BUFFERS_MAX, SegmentWrite
from appendlog.segments.written_pages import WrittenPages

PREPARED_LARGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of large messages in a prepared write: their CRCs take the thread that prepares it 0.4 ms.
"""


class SegmentWriter:
    """The writing part of one log.

    Args:
        directory: Directory of the log; the first append makes it.
        identity: Identity of the log.
        options: Options of the log.
        filesystem: File operations of the log.
        end_generation: Generation of the last slot in the `end` file.
        active: Segment to continue; None if the next append begins one.
        end_offset: Log end offset.
        last_timestamp_ns: Last append time, ns since 1970 UTC.
        foreign_files: Files that are not segments of the log; their names are taken.
        steps_back: Whether append times step back between segments of the log.
    """

    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        options: LogOptions,
        filesystem: FileSystem,
        end_generation: int,
        active: Segment | None,
        end_offset: int,
        last_timestamp_ns: int,
        foreign_files: Collection[SegmentName] = (),
        *,
        steps_back: bool = False,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._salt = identity.salt
        self._options = options
        self._filesystem = filesystem
        self._descriptors = options.descriptors
        self._end_file = DurableEndFile(directory, identity.incarnation, end_generation)
        self._is_data_synced = True
        self._is_directory_synced = True
        self.directories = options.directories or DurableDirectories(
            existing_root(filesystem, directory)
        )
        # An `end` file exists: it was written after the syncs of all parent directories.
        self._are_parents_synced = end_generation > 0
        self._pending: list[tuple[Chunk, ChunkHeader]] = []
        self._pending_bytes = 0
        # Append time of the last record of the active segment, also a pending one; 0: no record.
        self._segment_last_ns = 0
        if active is not None and active.summary.record_count:
            self._segment_last_ns = active.summary.last_timestamp_ns
        self._steps_back = steps_back
        self._new_header = b""
        self._age_ns = int(options.segment_age_seconds * 1e9)
        self._segments_end = end_offset
        self._foreign_files = foreign_files
        self._pages = WrittenPages()
        # Pages to evict, found by an append that touched no file: `[start, end)` of the segment.
        self._unneeded_pages = NO_PAGES
        # Such an append has added index entries that are to be stored.
        self._is_index_due = False
        self.active = active
        self.created: list[Segment] = []
        self.end_offset = end_offset
        self.last_timestamp_ns = last_timestamp_ns
        self._note_state()

    def change_options(self, options: LogOptions) -> None:
        """Use other options from the next append on."""
        self._options = options
        self._age_ns = int(options.segment_age_seconds * 1e9)

    def _check(self, append: Append) -> tuple[list[ChunkHeader], int]:
        """Return the headers of the chunks to append, and the offset after the last chunk.

        Raises:
            ValueError: A chunk is not of this log, not in order, or passes the end offset.
        """
        headers = []
        salt = self._salt
        expected = self.end_offset
        for chunk in append.chunks:
            if len(chunk) < CHUNK_HEADER_BYTES:
                raise ValueError(f"chunk has {len(chunk)} bytes")
            octets = chunk.front if isinstance(chunk, LargeChunk) else chunk
            header = own_header(octets, salt, expected)
            if header is None:
                found = decode_chunk_header(octets)
                raise ValueError(f"not a chunk of this log at or above offset {expected}: {found}")
            if CHUNK_PREFIX_BYTES + header.length != len(chunk):
                raise ValueError(f"chunk has {len(chunk)} bytes, its header says otherwise")
            expected = header.end_offset
            headers.append(header)
        if append.end_offset < expected:
            raise ValueError(f"end offset {append.end_offset} is below the chunks' end {expected}")
        return headers, expected

    def append(self, append: Append) -> None:
        """Write chunks, rolling if needed; with `sync` everything so far reaches the disk.

        If the end offset is above the last chunk's end, a gap marker records that, because the
        `end` file alone would not survive a power cut.

        Raises:
            ValueError: The chunks are not this log's or not in order; nothing was written.
            LogFailedError: A file operation failed. The log is in an unknown state.
        """
        headers, last = self._check(append)
        end_offset = append.end_offset
        for chunk, header in zip(append.chunks, headers, strict=True):
            self._add(chunk, header)
        if last < end_offset:
            marker = encode_gap_marker(
                last, end_offset, append.gap_reason, self.last_timestamp_ns, self._salt
            )
            self._add(marker, decode_chunk_header(marker))
            if self.active is not None and append.gap_reason != GAP_SKIPPED:
                # A start has to report the loss again: trusted sums would hide it.
                self.active.is_whole = False
        self._write(sync=append.sync)
        if append.sync:
            self._sync()
        else:
            # A later failure must not undo this append: it is confirmed now.
            self._note_state()
        self.end_offset = end_offset
        segment = self.active
        if append.sync and segment is not None:
            if segment.size_bytes >= self._pages.due_position:
                self._find_unneeded_pages(segment, append.settled_floor)
            self._evict_pages(segment)

    def prepare(self, append: Append) -> SegmentWrite | None:
        """Return what there is to write if an append is only that: a synced write, and its slot.

        With it go pages that were found before and need not stay in the cache. Touches no file and
        does not wait. Nothing else may be done with the log before `complete` or `abandon`.

        Returns:
            None if the append has to be made by `append`: because it begins or ends a segment,
            because something else waits to be synced or stored, because a file is not open, or
            because the CRCs of its large messages would take long.
        """
        segment = self.active
        if (
            segment is None
            or segment.is_sealed
            or not append.sync
            or not (self._is_data_synced and self._is_directory_synced)
            or not self._end_file.is_written
            or not self._filesystem.has_dsync
            or not 0 < len(append.chunks) <= WRITE_BUFFERS_MAX
            or self._is_index_due
            or self._new_header
        ):
            return None
        try:
            headers, last = self._check(append)
        except ValueError:
            return None  # `append` says what is wrong.
        if last != append.end_offset:
            return None
        last_ns = self._segment_last_ns
        after = segment.summary.copy()
        buffers: list[bytes | memoryview] = []
        left_bytes = PREPARED_LARGE_BYTES_MAX
        for chunk, header in zip(append.chunks, headers, strict=True):
            if isinstance(chunk, LargeChunk):
                left_bytes -= len(chunk)
            if left_bytes < 0 or self._must_roll(segment, chunk, header):
                self._forget_pending(last_ns)
                return None
            self._pend(chunk, header)
            after.add(header)
            if isinstance(chunk, LargeChunk):
                buffers += chunk.parts()
            else:
                buffers.append(chunk)
        files = None
        if len(buffers) <= WRITE_BUFFERS_MAX:
            paths = segment.path, self._end_file.path
            files = self._descriptors.borrow_open(self._filesystem, *paths)
        if files is None:
            self._forget_pending(last_ns)
            return None
        segment_file, end_file = files
        slot, slot_position = self._end_file.next_slot(
            after.end_offset,
            segment.name,
            segment.size_bytes + self._pending_bytes,
            after if segment.is_whole else None,
        )
        return SegmentWrite(
            self._filesystem,
            segment.path,
            append,
            segment_file,
            end_file,
            buffers,
            self._pending_bytes,
            segment.size_bytes,
            slot,
            slot_position,
            self._unneeded_pages,
        )

    def complete(self, write: SegmentWrite) -> None:
        """Take in the result of a prepared write.

        Raises:
            LogFailedError: A file operation failed. The log is in an unknown state.
        """
        segment = self.active
        assert segment is not None, "a prepared write continues a segment"
        self._descriptors.give_back((write.segment, write.end))
        if write.error is not None:
            raise LogFailedError(segment.path, write.error) from write.error
        self._is_index_due = self._count(segment)
        self._note_state()
        self._end_file.advance()
        if write.slot_error is not None:
            raise LogFailedError(self._end_file.path, write.slot_error) from write.slot_error
        self.end_offset = write.append.end_offset
        self._unneeded_pages = NO_PAGES
        if segment.size_bytes >= self._pages.due_position:
            self._find_unneeded_pages(segment, write.append.settled_floor)

    def abandon(self, write: SegmentWrite) -> None:
        """Forget a prepared write, which will be made by `append`, over what is written of it."""
        segment = self.active
        assert segment is not None, "a prepared write continues a segment"
        self._descriptors.give_back((write.segment, write.end))
        self._forget_pending(
            segment.summary.last_timestamp_ns if segment.summary.record_count else 0
        )

    def roll_back(self, known: Sequence[Segment]) -> None:
        """Remove what a failed append left in the files, with descriptors of its own.

        Args:
            known: Segments of the log, without those that the failed append began.

        Raises:
            OSError: The remains cannot be removed now.
        """
        # Also segments that the failed append began: other files will have their names.
        for segment in (*self.created, *filter(None, [self.active])):
            self._descriptors.evict(self._filesystem, segment.path)
        end_before, created_before, active_before = self._before
        known = (*known, *created_before)
        roll_back(
            self._filesystem,
            self._descriptors,
            self._directory,
            known,
            end_before,
            active_before,
            self._foreign_files,
        )

    def _sync(self) -> None:
        """Write all data and names so far to the disk, then record that in the `end` file."""
        segment = self.active
        if segment is None:
            return
        if not self._is_data_synced:
            self._sync_data(segment)
        if not self._is_directory_synced:
            self._sync_directory()
        # From here on other processes may see it: a half-written slot can be a valid one.
        self._note_state()
        self._end_file.write(
            self._filesystem,
            self._descriptors,
            segment.summary.end_offset,
            segment.name,
            segment.size_bytes,
            segment.summary if segment.is_whole and not segment.is_sealed else None,
        )

    def _find_unneeded_pages(self, segment: Segment, settled_floor: int) -> None:
        """Find the synced pages below an offset which can be evicted; see `WrittenPages`."""
        start, end = self._pages.unneeded(self.end_offset, segment.size_bytes, settled_floor)
        if start < end:
            # Those that were found before, and are not evicted yet, end where these start.
            before, before_end = self._unneeded_pages
            self._unneeded_pages = before if before < before_end else start, end

    def _evict_pages(self, segment: Segment) -> None:
        """Advise the kernel to drop the pages found.

        Only after a sync: otherwise the kernel would first write the pages to the disk. A kernel or
        file system that ignores the advice keeps them.
        """
        start, end = self._unneeded_pages
        if start < end:
            self._unneeded_pages = NO_PAGES
            with (
                suppress(OSError),
                self._descriptors.borrow(self._filesystem, segment.path) as descriptor,
            ):
                self._filesystem.wont_need(descriptor, start, end - start)

    def is_old(self, segment: Segment, now_ns: int) -> bool:
        """Return whether a segment's first record has reached the age at which segments are sealed.

        A segment with times ahead of the clock counts as old. Its real age is unknown, and it would
        not become old before the clock has reached these times.
        """
        summary = segment.summary
        first_ns = summary.first_timestamp_ns
        if not self._age_ns or not first_ns:
            return False
        return now_ns - first_ns >= self._age_ns or is_ahead(summary.last_timestamp_ns, now_ns)

    def roll(self) -> None:
        """Seal the active segment and begin one without records, on the disk.

        The new segment keeps the end offset when everything before it is removed.

        Raises:
            LogFailedError: A file operation failed. The log is in an unknown state.
        """
        self._note_state()
        if self.active is not None:
            self._seal(self.active)
        self.active = self._create()
        self._write(sync=False)
        self._sync()

    def mark_unsynced(self) -> None:
        """Assume that nothing found by recovery is on the disk yet."""
        self._is_data_synced = False
        self._is_directory_synced = False
        self._are_parents_synced = False

    def store_index(self, segment: Segment) -> None:
        """Write index entries that are not in the file yet. A failure only costs a rebuild."""
        self._is_index_due = False
        index = segment.index
        if index is None or not len(index.tail):
            return
        with suppress(OSError):
            index.store(self._filesystem, segment.index_path, self._salt)

    def _note_state(self) -> None:
        """Record the present state, to return to it after a failure of what comes next.

        As one assignment: the exception of a signal handler must not leave half of it.
        """
        active = self.active
        self._before = (
            self._segments_end,
            tuple(self.created),
            None if active is None else (active, active.size_bytes),
        )

    def _add(self, chunk: Chunk, header: ChunkHeader) -> None:
        if self.active is not None and self._must_roll(self.active, chunk, header):
            self._write(sync=False)
            self._seal(self.active)
            self.active = None
        if self.active is None:
            self.active = self._create()
        self._pend(chunk, header)

    def _pend(self, chunk: Chunk, header: ChunkHeader) -> None:
        """Let a chunk wait for the next write to the active segment."""
        self._pending.append((chunk, header))
        self._pending_bytes += len(chunk)
        if header.kind != KIND_CONTROL:
            self._segment_last_ns = header.last_timestamp_ns

    def _forget_pending(self, segment_last_ns: int) -> None:
        """Let no chunk wait; the segment's last append time is what it was before."""
        self._pending.clear()
        self._pending_bytes = 0
        self._segment_last_ns = segment_last_ns

    def _must_roll(self, segment: Segment, chunk: Chunk, header: ChunkHeader) -> bool:
        """Return whether a chunk begins a segment, because of its size, offsets or times.

        A chunk whose time is below the last one in the segment does. So a segment with times far
        ahead of the chunk's, which counts as old, needs no look at its age.
        """
        size = segment.size_bytes + self._pending_bytes
        first_ns = segment.summary.first_timestamp_ns
        return size > segment.header_bytes and (
            size + len(chunk) > self._options.segment_bytes
            or header.base_offset + header.last_offset_delta - segment.name.base_offset >= U32_MAX
            or (header.kind != KIND_CONTROL and header.first_timestamp_ns < self._segment_last_ns)
            or bool(first_ns and 0 < self._age_ns <= header.last_timestamp_ns - first_ns)
        )

    def _create(self) -> Segment:
        """Return a new segment; the first write to it makes its file."""
        base_offset = self._segments_end
        name = SegmentName(base_offset, 0)
        while name in self._foreign_files:
            name = SegmentName(base_offset, name.generation + 1)
        now_ns = self._options.time_ns()
        header = SegmentHeader(
            self._identity, base_offset, now_ns, self.last_timestamp_ns, name.generation
        )
        self._new_header = encode_segment_header(header)
        summary = SegmentSummary(base_offset, base_offset, self.last_timestamp_ns)
        segment = Segment(self._directory, name, len(self._new_header), summary)
        segment.begun_ns = now_ns
        segment.index = ActiveIndex(base_offset, self._options.index_interval_bytes)
        self._pages.begin()
        self._segment_last_ns = 0
        return segment

    def _write(self, *, sync: bool) -> None:
        """Write the pending chunks to the active segment, in one system call if possible."""
        segment = self.active
        if segment is None or not (self._pending or self._new_header):
            return
        buffers: list[bytes | memoryview] = []
        for chunk, _ in self._pending:
            if isinstance(chunk, LargeChunk):
                buffers += chunk.parts()
            else:
                buffers.append(chunk)
        position = segment.size_bytes
        flags = os.O_RDWR
        try:
            if self._new_header:
                self.directories.make(self._filesystem, self._directory)
                if not sync and not self._end_file.is_written:
                    # Without an `end` file readers would treat unsynced records as durable, and
                    # show them.
                    self._end_file.write(
                        self._filesystem, self._descriptors, segment.base_offset, segment.name, 0
                    )
                buffers.insert(0, self._new_header)
                position = 0
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
                self._is_directory_synced = False
            sync = sync and self._is_data_synced
            with self._descriptors.borrow(self._filesystem, segment.path, flags) as descriptor:
                self._filesystem.write_all(descriptor, buffers, position, sync)
        except OSError as error:
            raise LogFailedError(segment.path, error) from error
        self._is_data_synced = sync
        if self._new_header:
            self._new_header = b""
            self.created.append(segment)
        if self._count(segment) or self._is_index_due:
            self.store_index(segment)

    def _count(self, segment: Segment) -> bool:
        """Add what was written to the segment's sums, index and sizes.

        Returns:
            Whether there are new index entries, and enough of them to be stored.
        """
        position = segment.size_bytes
        index = segment.index
        has_entries = False
        summary = segment.summary
        for chunk, header in self._pending:
            if header.kind != KIND_CONTROL:
                self._steps_back |= header.first_timestamp_ns < summary.last_timestamp_ns
                if index is not None and position >= index.due_position:
                    before_ns = summary.time_before(header.first_timestamp_ns)
                    index.add(header.base_offset, position, before_ns)
                    has_entries = True
            summary.add(header)
            position += len(chunk)
        self.last_timestamp_ns = summary.last_timestamp_ns
        self._pending.clear()
        self._pending_bytes = 0
        self._segments_end = summary.end_offset
        segment.size_bytes = segment.data_bytes = position
        return index is not None and has_entries and len(index.tail) >= INDEX_GROUP_ENTRIES

    def _seal(self, segment: Segment) -> None:
        """Write the footer and sync the whole segment."""
        segment.summary.steps_back = self._steps_back
        footer = encode_footer(segment.summary, self._salt)
        try:
            with self._descriptors.borrow(self._filesystem, segment.path) as descriptor:
                segment.size_bytes = self._filesystem.write_all(
                    descriptor, [footer], segment.size_bytes, self._is_data_synced
                )
        except OSError as error:
            raise LogFailedError(segment.path, error) from error
        if not self._is_data_synced:
            self._sync_data(segment)
        if not self._is_directory_synced:
            self._sync_directory()
        self._evict_pages(segment)
        self.store_index(segment)
        segment.is_sealed = True
        segment.index = None

    def _sync_data(self, segment: Segment) -> None:
        try:
            with self._descriptors.borrow(self._filesystem, segment.path) as descriptor:
                self._filesystem.fdatasync(descriptor)
        except OSError as error:
            raise LogFailedError(segment.path, error) from error
        self._is_data_synced = True

    def _sync_directory(self) -> None:
        try:
            self._filesystem.sync_directory(self._directory)
            if not self._are_parents_synced:
                self.directories.sync(self._filesystem, self._directory)
                self._are_parents_synced = True
        except OSError as error:
            raise LogFailedError(self._directory, error) from error
        self._is_directory_synced = True
