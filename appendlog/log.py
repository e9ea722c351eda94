"""The log of one queue incarnation: append, read by offset, retention."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from appendlog.errors import LogFailedError
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.compression import ChunkCompressor
from appendlog.layout.format import GAP_SKIPPED
from appendlog.layout.summary import SegmentSummary
from appendlog.log_state import LogState
from appendlog.opening import open_state, reopen_state
from appendlog.options import Compression, LogOptions
from appendlog.reclaim.log_reclaim import LogReclaim
from appendlog.reclaim.removal import remove_directory
from appendlog.recovery.recovery_report import RecoveryReport
from appendlog.segments.append_clock import is_ahead
from appendlog.segments.read_result import ReadResult
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import IndexStatistics
from appendlog.segments.segment_reader import WINDOW_BYTES_MAX
from appendlog.segments.transaction_counts import transaction_counts
from appendlog.segments.transient import transient_ranges

EMPTIED_BYTES: Final = 1 << 20
"""An active segment of which everything is settled is sealed for removal from this size on.

Sealing costs four syncs; below this size it would cost a queue that is drained again and again
more than the room is worth.
"""


class Log:
    """An append log in one directory. Made by `Log.open`.

    Who may do what at the same time:

    - `append` and `roll`: one thread.
    - `remove_settled`, `reclaim`'s changes, `reopen`, `close`, `delete`: one thread, one after the
      other. The first two may run beside an append: they touch only segments that nothing is
      appended to any more. The last three may not. A log that is opened anew has failed, so
      nobody appends to it until that is done.
    - All that reads, and the plain numbers: any threads, beside all of the above. What they look
      at is replaced whole or only grows. A reopen replaces the whole state: a read takes it once,
      and what it found in the old one it may go on with, for a reopen removes nothing that could
      be read. A compaction that was asked for before a reopen finds that its segment is not one
      of the log any more, and does nothing.
    """

    def __init__(self, state: LogState) -> None:
        """Use `open`; or `fresh_state`, for a log that cannot be there yet."""
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
    ) -> tuple[Self, RecoveryReport]:
        """Open a log and recover it; a directory that does not exist is an empty log.

        Creates nothing before the first append. A torn tail is cut, damage is copied
        aside and skipped; whatever was found is on the disk afterwards. Reads the last
        segment, and of the others their footers.

        Args:
            directory: Of this incarnation alone.
            identity: Whose log it is; chunks of another incarnation are not its chunks.
            options: Defaults are for production.
            filesystem: The operating system's by default.
            settled_floor: Offsets below it are known to be settled. Segments that are missing
                there were being removed when a power cut came; they are not lost.
            known_end: Offsets below it are known to have been on the disk. If they are not, and
                not settled, they are lost; they are never used again.

        Returns:
            The log, and what recovery found.

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
        """Return the offset behind the last one written, exclusive."""
        return self._state.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Return the offset below which everything is on the disk, exclusive."""
        return self._state.recovery_point

    @property
    def last_timestamp_ns(self) -> int:
        """Return the append time of the last record; 0 when the log never held one."""
        return self._state.writer.last_timestamp_ns

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments as they are now, oldest first. Do not change them."""
        return self._state.segments.snapshot

    @property
    def reclaim(self) -> LogReclaim:
        """What gives back disk space; another one after a reopen."""
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
        """Return the failure that made the log read-only for ever, or None."""
        return self._state.failed

    @property
    def damaged(self) -> list[str]:
        """Return a line for each damaged place that reads have met since the log was opened."""
        return self._state.reads.damaged

    @property
    def damaged_chunks(self) -> int:
        """Return how many damaged places were met since the log was opened, by that as well."""
        return self._damaged_at_open + len(self.damaged)

    def summaries(self) -> list[SegmentSummary]:
        """Return the sums of each segment, oldest first. Do not change them."""
        return [segment.summary for segment in self._state.segments]

    def append(
        self, chunks: Sequence[bytes], end_offset: int, sync: bool, settled_floor: int = 0
    ) -> None:
        """Append chunks; the log ends at `end_offset` afterwards.

        Segments roll before a chunk that would make them longer than `segment_bytes`; the
        chunks for one segment are one write. Without `sync` the bytes reach the kernel
        only. With it, everything up to `end_offset` is on the disk when this returns, and
        the `end` file says so. No chunks and `sync` puts on the disk what was not. Chunks
        are packed before where the options say so.

        Args:
            chunks: Of `encode_chunk` with this log's salt, base offsets increasing from
                `log_end_offset` on. Not kept.
            end_offset: At least the end of the last chunk; what is between is skipped for
                ever (a gap marker is written).
            sync: See above.
            settled_floor: Nobody will soon read an offset below it: of these, what a sync has
                put on the disk need not stay in the page cache.

        Raises:
            ValueError: The chunks are not this log's or not in order; nothing was written.
            LogFailedError: A write or sync failed, now or before. Final: what of these
                chunks is on the disk is unknown until the log is opened anew.
        """
        state = self._state
        if state.failed is not None:
            raise state.failed
        if state.options.compression is Compression.ZSTD:
            compressor = ChunkCompressor(state.options.compression_bytes_min)
            chunks = [compressor.compress(chunk) for chunk in chunks]
        headers = state.writer.check(chunks, end_offset)
        state.append(chunks, headers, end_offset, sync, GAP_SKIPPED)
        if sync:
            state.writer.evict_pages(settled_floor)

    def read(self, offset: int, max_bytes: int, max_records: int) -> ReadResult:
        """Return records from the first one at or after `offset`, in order.

        Sees what was appended, synced or not; never past `log_end_offset`.

        Args:
            offset: Where to begin; below `log_start_offset` means there.
            max_bytes: Of messages, >= 1; no more are added once it is reached, so one
                record is always returned if there is one.
            max_records: >= 1.

        Raises:
            LogFailedError: A file cannot be read. The log itself does not fail by it.
        """
        state = self._state
        return state.reads.read(offset, state.log_end_offset, max_bytes, max_records)

    def read_window(
        self, offset: int, max_records: int, max_bytes: int = WINDOW_BYTES_MAX
    ) -> ReadResult:
        """Return the records of a piece of one file, from the one at `offset` on.

        For reading on in order without reading anything twice: a window ends between chunks.
        The records are one part, of a mapping if their segment is sealed; they are in the page
        cache, their CRCs are checked. Otherwise as `read`.

        Args:
            offset: Where to begin; below `log_start_offset` means there.
            max_records: >= 1.
            max_bytes: About how long a piece: 64 KiB to 1 MiB.

        Raises:
            LogFailedError: A file cannot be read. The log itself does not fail by it.
        """
        state = self._state
        return state.reads.read_window(offset, state.log_end_offset, max_records, max_bytes)

    def first_offset_at(self, timestamp_ns: int) -> int:
        """Return the lowest offset that was appended at or after a time.

        Nanoseconds since 1970 UTC. `log_end_offset` when there is none. What follows may be from
        before that time: where a clock was set back, append times step back. Costs the reading of
        one interval of the sparse index.

        Raises:
            LogFailedError: A file cannot be read.
        """
        state = self._state
        return state.reads.first_offset_at(timestamp_ns, state.log_end_offset)

    def index_statistics(self) -> IndexStatistics:
        """Count what the sparse indexes hold; asks the file system for their sizes."""
        state = self._state
        return state.indexes.statistics(state.segments.snapshot)

    def transient_ranges(self, start: int) -> list[tuple[int, int]]:
        """Return the offsets >= `start` whose records are not PERSISTENT, as ranges.

        Segments and chunks without such records are skipped by their sums. A range may
        span offsets that are not in the log. Joined where they touch; in order.

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
        """Tell whether `remove_settled(floor)` might find a segment to remove. O(1)."""
        segments = self._state.segments.snapshot
        return len(segments) > 1 and segments[0].end_offset <= floor

    def remove_settled(self, floor: int) -> int:
        """Remove sealed segments that lie wholly below `floor`; return the bytes freed.

        The last segment always stays, so an emptied log keeps its end offset.

        Args:
            floor: Offsets below it are settled, and that is on the disk.

        Raises:
            LogFailedError: A file cannot be removed.
        """
        try:
            return self._state.reclaim.remove(floor)
        except OSError as error:
            raise self.fail(self.directory, error) from error

    def is_roll_due(self, now_ns: int, floor: int, keep_since_ns: int | None = None) -> bool:
        """Tell whether the last segment should be sealed though nothing is appended. O(1).

        Because its first record is old enough, so that retention may take the segment one day.
        Or because all of it is settled, and it is large: retention may take it at once.

        Args:
            now_ns: Nanoseconds since 1970 UTC.
            floor: As for `remove_settled`.
            keep_since_ns: What was appended at or after this time is kept though it is settled.
        """
        state = self._state
        last = state.segments.last
        if last is None or not last.summary.chunk_count:
            return False
        if not last.is_sealed and state.writer.is_old(last, now_ns):
            return True
        last_ns = last.summary.last_timestamp_ns
        is_kept = keep_since_ns is not None and last_ns >= keep_since_ns
        # Or it would be kept for as long as the clock was wrong: sealed, its age is known.
        is_kept = is_kept and not is_ahead(last_ns, now_ns)
        emptied_bytes = min(EMPTIED_BYTES, state.options.segment_bytes)
        return last.end_offset <= floor and last.size_bytes >= emptied_bytes and not is_kept

    def roll(self) -> None:
        """Seal the last segment and begin an empty one; nothing happens in an empty log.

        Everything so far is on the disk when this returns.

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
        """Put everything on the disk and close the files. The log is not used afterwards.

        Raises:
            LogFailedError: The last sync failed.
        """
        state = self._state
        try:
            if state.failed is None and state.recovery_point < state.log_end_offset:
                self.append([], state.log_end_offset, sync=True)
            if state.writer.active is not None:
                state.writer.store_index(state.writer.active)
        finally:
            state.forget_files(state.segments.snapshot)

    def delete(self) -> None:
        """Remove the directory with all that is in it; the log is not used afterwards.

        Raises:
            LogFailedError: Something could not be removed.
        """
        state = self._state
        segments = state.segments.snapshot
        state.segments.clear()
        # Nothing is stored any more in the directory that is about to be removed.
        state.indexes.close()
        try:
            remove_directory(self.directory, state.filesystem)
        except OSError as error:
            raise self.fail(self.directory, error) from error
        finally:
            # Not sooner: a read beside this would open a file again before it is unlinked.
            state.forget_files(segments)
        if state.options.directories is not None:
            state.options.directories.forget_deleted(state.filesystem, self.directory)

    def fail(self, path: Path, cause: Exception) -> LogFailedError:
        """Make the log read-only for ever and return why; the first failure counts.

        A second fsync on the same descriptor could lie: the kernel may have dropped the
        pages that it could not write.
        """
        return self._state.fail(path, cause)

    def reopen(self) -> RecoveryReport:
        """Take a failed log into use again: its files are opened and recovered anew.

        What the failed append left is taken back first, for nobody was promised it; what it
        had sealed stays, so the log may end behind where it did, never before it. Sound after a
        write that failed for want of room. After a failed sync it is not proven that what was
        written before without a sync is on the disk, though it can be read.

        Raises:
            LogFailedError: It still fails; the log stays as it is.
        """
        failed = self._state
        assert failed.failed is not None, "a log that works is not opened again"
        self._state, report = reopen_state(failed)
        self._damaged_at_open = report.damaged_chunks
        # What reads have found by the old state until now is not of the new one.
        failed.forget_mapped(failed.segments.snapshot)
        return report
