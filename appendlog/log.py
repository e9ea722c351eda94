"""The log of one queue incarnation: append, read by offset, retention."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from appendlog.append import Append
from appendlog.errors import LogFailedError
from appendlog.files.filesystem import FileSystem
from appendlog.files.found_files import FoundFiles
from appendlog.identity import LogIdentity
from appendlog.layout.compression import ChunkCompressor
from appendlog.layout.large_chunk import joined_chunk
from appendlog.layout.summary import SegmentSummary
from appendlog.log_state import LogState
from appendlog.opening import open_state, reopen_state
from appendlog.options import Compression, LogOptions
from appendlog.reclaim.log_reclaim import LogReclaim
from appendlog.reclaim.removal import remove_directory
from appendlog.recovery.log_images import LogImage
from appendlog.recovery.recovery_report import RecoveryReport
from appendlog.segments.append_clock import is_ahead
from appendlog.segments.read_result import ReadResult
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import IndexStatistics
from appendlog.segments.segment_reader import WINDOW_BYTES_MAX
from appendlog.segments.segment_write import SegmentWrite
from appendlog.segments.transaction_counts import transaction_counts
from appendlog.segments.transient import transient_ranges

EMPTIED_BYTES: Final = 1 << 20
"""Size from which an active segment with only settled records is sealed, so it can be removed.

Sealing costs four syncs. For a small segment that is too much: a queue that is often drained
would pay it each time.
"""


class Log:
    """Append log in one directory; `Log.open` makes it.

    Threads:

    - `append`, `roll`, `prepare`, `complete` and `abandon`: one thread at a time.
    - `remove_settled`, the changes of `reclaim`, `reopen`, `close`, `delete`: one thread, one call
      after the other. The first two may run during an append: they touch only segments that are
      no longer appended to. The last three may not. A log that is reopened has failed, so no
      caller appends to it until the reopen is done.
    - All reads and the counters: any thread, at any time. The data that they look at is replaced
      as a whole or only grows. A reopen replaces the whole state. A read takes the state once and
      may continue with the old one, because a reopen removes nothing that could be read. A
      compaction that was requested before a reopen does nothing: its segment is not in the log.
    """

    def __init__(self, state: LogState) -> None:
        """Take the state; callers use `open`, or `fresh_state` for a log that cannot exist yet."""
        self.directory: Final = state.directory
        self.identity: Final = state.identity
        self._state = state
        self._damaged_at_open = 0

    @classmethod
    def open(
        cls,
        directory: Path,
        identity: LogIdentity,
        options: LogOptions | None = None,
        filesystem: FileSystem | None = None,
        settled_floor: int = 0,
        known_end: int = 0,
        image: LogImage | None = None,
        found_files: FoundFiles | None = None,
    ) -> tuple[Self, RecoveryReport]:
        """Open a log and recover it; a directory that does not exist is an empty log.

        Creates nothing before the first append. Recovery cuts a torn tail, copies damage aside and
        skips it; its result is on the disk afterwards. It reads the last segment, and only the
        footers of the others.

        Args:
            directory: Directory that only this incarnation uses.
            identity: Queue that owns the log; chunks of another incarnation are not valid here.
            options: Options of the log; the defaults are for production.
            filesystem: File operations; those of the operating system by default.
            settled_floor: Offset below which everything is known to be settled. A segment that is
                missing there was being removed at a power cut; it is not lost.
            known_end: Offset below which everything is known to have been on the disk. Missing
                offsets that are not settled are reported as lost, and never used again.
            image: What is in the directory, from `appendlog.recovery.log_images`, if it was read.
            found_files: Knows whether the files are on the disk, if this process opens many logs,
                and has not changed any of them yet.

        Returns:
            The log, and the report of its recovery.

        Raises:
            UnsupportedFormatError: A segment is of another format version.
            LogFailedError: A file operation failed.
        """
        state, report = open_state(
            directory,
            identity,
            options or LogOptions(),
            filesystem or FileSystem(),
            settled_floor,
            known_end,
            image,
            found_files,
        )
        log = cls(state)
        log._damaged_at_open = report.damaged_chunks
        return log, report

    @property
    def log_start_offset(self) -> int:
        """Return the lowest offset that the log may hold, inclusive."""
        state = self._state
        first = state.segments.first
        return state.log_end_offset if first is None else first.base_offset

    @property
    def log_end_offset(self) -> int:
        """Return the offset after the last one written, exclusive."""
        return self._state.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Return the offset below which everything is on the disk, exclusive."""
        return self._state.recovery_point

    @property
    def last_timestamp_ns(self) -> int:
        """Return the append time of the last record; 0 if the log never had one."""
        return self._state.writer.last_timestamp_ns

    def change_options(
        self, *, segment_bytes: int, segment_age_seconds: float, compression: Compression
    ) -> None:
        """Change when segments are sealed, and how chunks are compressed, from the next append on.

        Any thread may call it: an append that runs now uses the old options or the new ones.

        Args:
            segment_bytes: See `LogOptions`.
            segment_age_seconds: See `LogOptions`.
            compression: See `LogOptions`.

        Raises:
            ValueError: A value is out of bounds.
        """
        self._state.change_options(
            replace(
                self._state.options,
                segment_bytes=segment_bytes,
                segment_age_seconds=segment_age_seconds,
                compression=compression,
            )
        )

    def time_ns(self) -> int:
        """Return the time of day that append times go by, in nanoseconds since 1970 UTC."""
        return self._state.options.time_ns()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The current segments, oldest first. Do not change them."""
        return self._state.segments.snapshot

    @property
    def is_unused(self) -> bool:
        """Whether the log has no segment and no failure: there is nothing to write or to close."""
        return not self._state.segments.snapshot and self._state.failed is None

    @property
    def reclaim(self) -> LogReclaim:
        """The part that frees disk space; replaced by a reopen."""
        return self._state.reclaim

    @property
    def size_bytes(self) -> int:
        """Return the size of all segment files."""
        return self._state.segments.size_bytes

    @property
    def mapped_count(self) -> int:
        """Return how often a part of a segment was mapped since the log was opened."""
        return self._state.reads.reader.mapped_count

    @property
    def failed(self) -> LogFailedError | None:
        """Return the failure that made the log read-only, or None."""
        return self._state.failed

    @property
    def damaged(self) -> list[str]:
        """Return a line for each damaged place that reads have found since the log was opened."""
        return self._state.reads.damaged

    @property
    def damaged_chunks(self) -> int:
        """Return the number of damaged places that recovery and reads have found."""
        return self._damaged_at_open + len(self.damaged)

    def summaries(self) -> list[SegmentSummary]:
        """Return the sums of each segment, oldest first. Do not change them."""
        return [segment.summary for segment in self._state.segments]

    def append(self, append: Append) -> None:
        """Append chunks; the log ends at the append's `end_offset` afterwards.

        A segment rolls before a chunk that would make it longer than `segment_bytes`. The chunks
        for one segment are one write. Without `sync` the bytes only reach the kernel. With it,
        everything up to `end_offset` is on the disk when this returns, and the `end` file says so.
        No chunks with `sync` writes to the disk what is not there yet. The log compresses the
        chunks first if its options say so.

        Raises:
            ValueError: The chunks are not this log's or not in order; nothing was written.
            LogFailedError: A write or sync failed, now or before. The log stays read-only; which of
                these chunks are on the disk is unknown until it is reopened.
        """
        state = self._state
        if state.failed is not None:
            raise state.failed
        if state.options.compression is Compression.ZSTD:
            compressor = ChunkCompressor(state.options.compression_bytes_min)
            chunks = [compressor.compress(joined_chunk(chunk)) for chunk in append.chunks]
            append = replace(append, chunks=chunks)
        state.append(append)

    def prepare(self, append: Append) -> SegmentWrite | None:
        """Return what there is to write if an append is only that; None if `append` must make it.

        Touches no file and does not wait, so the thread of an event loop may call it. Nothing may
        be appended before `complete`, or `abandon`.
        """
        state = self._state
        if state.failed is not None or state.options.compression is Compression.ZSTD:
            return None
        return state.writer.prepare(append)

    def complete(self, write: SegmentWrite) -> None:
        """Take in the result of a prepared write, as if `append` had made it.

        Touches no file and does not wait.

        Raises:
            LogFailedError: The write failed; as for `append`.
        """
        state = self._state
        try:
            state.writer.complete(write)
        except LogFailedError as error:
            raise state.fail(error) from error.cause
        state.log_end_offset = state.recovery_point = write.append.end_offset

    def abandon(self, write: SegmentWrite) -> None:
        """Forget a prepared write which was refused: `append` makes it another way."""
        self._state.writer.abandon(write)

    def read(self, offset: int, max_bytes: int, max_records: int) -> ReadResult:
        """Return records from the first one at or after `offset`, in order.

        Includes records that are not synced yet; never reads past `log_end_offset`.

        Args:
            offset: First offset; below `log_start_offset` means the start of the log.
            max_bytes: Limit of message bytes, >= 1. The read ends once it is reached, so it returns
                at least one record if there is one.
            max_records: Limit of records, >= 1.

        Raises:
            LogFailedError: A file cannot be read. The log itself does not fail because of this.
        """
        state = self._state
        return state.reads.read(offset, state.log_end_offset, max_bytes, max_records)

    def read_window(
        self,
        offset: int,
        max_records: int,
        max_bytes: int = WINDOW_BYTES_MAX,
        large_bytes: int = 0,
    ) -> ReadResult:
        """Return the records of a piece of one file, from the one at `offset` on.

        For sequential reading without reading anything twice: a window ends between chunks. The
        records are one part. If their segment is sealed, they lie in a mapping. But a large message
        is a part of its own: it is read by copy, into a buffer of its own. They are in the page
        cache, and their CRCs have been checked. Otherwise like `read`.

        Args:
            offset: First offset; below `log_start_offset` means the start of the log.
            max_records: Limit of records, >= 1.
            max_bytes: Approximate size of the piece in bytes: 64 KiB to 1 MiB.
            large_bytes: Bytes of large messages that are read together if they come next, for a
                reader that has just met one. 0: one, if it is larger than the piece.

        Raises:
            LogFailedError: A file cannot be read. The log itself does not fail because of this.
        """
        state = self._state
        return state.reads.read_window(
            offset, state.log_end_offset, max_records, max_bytes, large_bytes
        )

    def first_offset_at(self, timestamp_ns: int) -> int:
        """Return the lowest offset that was appended at or after a time.

        `log_end_offset` if there is none. Later records may be older than that time: append times
        step back where a clock was set back. Reads one interval of the sparse index.

        Args:
            timestamp_ns: Nanoseconds since 1970 UTC.

        Raises:
            LogFailedError: A file cannot be read.
        """
        state = self._state
        return state.reads.first_offset_at(timestamp_ns, state.log_end_offset)

    def index_statistics(self) -> IndexStatistics:
        """Count the entries of the sparse indexes; asks the file system for their sizes."""
        state = self._state
        return state.indexes.statistics(state.segments.snapshot)

    def transient_ranges(self, start: int) -> list[tuple[int, int]]:
        """Return the offsets >= `start` whose records are not PERSISTENT, as ranges.

        Skips segments and chunks whose sums show no such records. A range may include offsets
        that are not in the log. Ranges that touch are joined; they are in order.

        Raises:
            LogFailedError: A file cannot be read.
        """
        state = self._state
        try:
            return transient_ranges(
                state.segments.snapshot, start, state.log_end_offset, *state.scanning
            )
        except OSError as error:
            raise LogFailedError(self.directory, error) from error

    def transaction_counts(self, start: int) -> Mapping[bytes, int]:
        """Return how many PERSISTENT records of each transaction lie in chunks from `start` on.

        Raises:
            LogFailedError: A file cannot be read.
        """
        state = self._state
        try:
            return transaction_counts(state.segments.snapshot, start, *state.scanning)
        except OSError as error:
            raise LogFailedError(self.directory, error) from error

    def has_settled_segment(self, floor: int) -> bool:
        """Return whether `remove_settled(floor)` may find a segment to remove. O(1)."""
        segments = self._state.segments.snapshot
        return len(segments) > 1 and segments[0].end_offset <= floor

    def remove_settled(self, floor: int) -> int:
        """Remove sealed segments that lie wholly below `floor`; return the bytes freed.

        The last segment always stays, so that an empty log keeps its end offset.

        Args:
            floor: Offset below which everything is settled, and the settlement is on the disk.

        A file that cannot be removed is tried again by the next call; the log goes on.

        Raises:
            LogFailedError: The directory cannot be synced.
        """
        try:
            return self._state.reclaim.remove(floor)
        except OSError as error:
            raise self.fail(self.directory, error) from error

    def is_roll_due(self, now_ns: int, floor: int, keep_since_ns: int | None = None) -> bool:
        """Return whether the last segment should be sealed although nothing is appended. O(1).

        Either its first record is old enough, so that retention can remove the segment later. Or
        the segment is large and all of it is settled: retention can remove it at once.

        Args:
            now_ns: Nanoseconds since 1970 UTC.
            floor: As for `remove_settled`.
            keep_since_ns: Retention keeps records appended at or after this time, even if settled.
        """
        state = self._state
        last = state.segments.last
        if last is None or not last.summary.chunk_count:
            return False
        if not last.is_sealed and state.writer.is_old(last, now_ns):
            return True
        last_ns = last.summary.last_timestamp_ns
        is_kept = keep_since_ns is not None and last_ns >= keep_since_ns
        # A wrong clock may have stamped the segment: seal it, or it stays as long as that time is
        # ahead.
        is_kept = is_kept and not is_ahead(last_ns, now_ns)
        emptied_bytes = min(EMPTIED_BYTES, state.options.segment_bytes)
        return last.end_offset <= floor and last.size_bytes >= emptied_bytes and not is_kept

    def roll(self) -> None:
        """Seal the last segment and begin an empty one; do nothing in an empty log.

        Everything appended before is on the disk when this returns.

        Raises:
            LogFailedError: A write or sync failed, now or before.
        """
        state = self._state
        if state.failed is not None:
            raise state.failed
        last = state.segments.last
        if last is not None and last.summary.chunk_count:
            state.roll()

    def close(self) -> None:
        """Write everything to the disk and close the files. The log is not used afterwards.

        Raises:
            LogFailedError: The last sync failed.
        """
        state = self._state
        try:
            if state.failed is None and state.recovery_point < state.log_end_offset:
                self.append(Append([], state.log_end_offset, sync=True))
            if state.writer.active is not None:
                state.writer.store_index(state.writer.active)
        finally:
            state.close_files(state.segments.snapshot)

    def delete(self) -> None:
        """Remove the directory with all its files; the log is not used afterwards.

        Raises:
            LogFailedError: Something could not be removed.
        """
        state = self._state
        segments = state.segments.snapshot
        state.segments.clear()
        # No index may be stored in the directory that is removed next.
        state.indexes.close()
        try:
            remove_directory(self.directory, state.filesystem)
        except OSError as error:
            raise self.fail(self.directory, error) from error
        finally:
            # Not earlier: a concurrent read would open a file again before it is unlinked.
            state.close_files(segments)
        if state.options.directories is not None:
            state.options.directories.note_removed(state.filesystem, self.directory)

    def fail(self, path: Path, cause: Exception) -> LogFailedError:
        """Make the log read-only and return the failure; only the first one counts.

        A second fsync on the same descriptor could report success wrongly: the kernel may have
        dropped the pages that it could not write.
        """
        return self._state.fail(LogFailedError(path, cause))

    def reopen(self) -> RecoveryReport:
        """Use a failed log again: open and recover its files again.

        First this removes what the failed append left: no caller got a confirmation for it.
        Segments that the append had sealed stay, so the log may end later than before, never
        earlier. This is safe after a write that failed because the disk was full. After a failed
        sync, data written earlier without a sync is readable, but it is not proven to be on the
        disk.

        Raises:
            LogFailedError: The files still fail; the log stays unchanged.
        """
        failed = self._state
        assert failed.failed is not None, "a log that works is not opened again"
        self._state, report = reopen_state(failed)
        self._damaged_at_open = report.damaged_chunks
        # Reads have filled caches through the old state until now; the new state must not use them.
        failed.unmap(failed.segments.snapshot)
        return report
