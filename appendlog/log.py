"""The log of one queue incarnation: append, read by offset, retention.

`append`, `close` and `delete` belong to one thread at a time, and `remove_settled` and
`reclaim.compact` to one that may be another: they touch only segments that nothing is appended
to any more.
`read`, `transient_ranges` and the plain-number properties may be used by any thread
beside them: what they look at is replaced whole or only grows.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from appendlog.errors import LogFailedError
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.chunk import ChunkHeader
from appendlog.layout.compression import ChunkCompressor
from appendlog.layout.format import ADVANCE_LOST, ADVANCE_SKIPPED
from appendlog.layout.summary import SegmentSummary
from appendlog.options import Compression, LogOptions
from appendlog.reclaim.log_reclaim import LogReclaim
from appendlog.reclaim.removal import remove_directory
from appendlog.recovery.log_recovery import RecoveredLog, recover
from appendlog.recovery.recovery_report import RecoveryReport
from appendlog.recovery.segment_recovery import RecoveryContext
from appendlog.segments.durable_end import END_FILE_NAME
from appendlog.segments.log_reads import LogReads
from appendlog.segments.read_result import ReadResult
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import IndexStatistics, SegmentIndexes
from appendlog.segments.segment_list import SegmentList
from appendlog.segments.segment_reader import SegmentReader
from appendlog.segments.segment_writer import SegmentWriter
from appendlog.segments.transaction_counts import transaction_counts
from appendlog.segments.transient import transient_ranges

EMPTIED_BYTES: Final = 1 << 20
"""An active segment of which everything is settled is sealed for removal from this size on.

Sealing costs four syncs; below this size it would cost a queue that is drained again and again
more than the room is worth.
"""


class Log:
    """An append log in one directory. Made by `Log.open`."""

    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        options: LogOptions,
        filesystem: FileSystem,
        recovered: RecoveredLog,
    ) -> None:
        self.directory: Final = directory
        self.identity: Final = identity
        self._options = options
        self._filesystem = filesystem
        self._descriptors = options.descriptors
        self._scanning = (filesystem, options.descriptors, identity.salt)
        self._segments = SegmentList(recovered.segments)
        last = recovered.segments[-1] if recovered.segments else None
        self._writer = SegmentWriter(
            directory,
            identity,
            options,
            filesystem,
            recovered.durable_end.generation if recovered.durable_end else 0,
            None if last is None or last.is_sealed else last,
            recovered.end_offset,
            last.summary.last_timestamp_ns if last else 0,
        )
        self._reads = LogReads(self._segments)
        self._reads.reader = SegmentReader(
            filesystem,
            options.descriptors,
            identity.salt,
            os.O_RDWR,
            self._reads.note_damage,
            options.mappings,
        )
        self._indexes = self._reads.indexes = SegmentIndexes(
            filesystem,
            options.descriptors,
            options.indexes,
            identity.salt,
            options.index_interval_bytes,
            os.O_RDWR,
            is_owner=True,
        )
        self.reclaim: Final = LogReclaim(
            directory, identity, options, filesystem, self._segments, self._indexes
        )
        self._log_end_offset = self._recovery_point = recovered.end_offset
        self._failed: LogFailedError | None = None

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
        options = options or LogOptions()
        filesystem = filesystem or FileSystem()
        report = RecoveryReport(directory)
        context = RecoveryContext(
            directory,
            identity,
            filesystem,
            options.descriptors,
            options.index_interval_bytes,
            report,
            settled_floor,
            known_end,
        )
        try:
            recovered = recover(context)
        except OSError as error:
            raise LogFailedError(directory, error) from error
        log = cls(directory, identity, options, filesystem, recovered)
        log._settle_recovery(recovered)
        return log, report

    @property
    def log_start_offset(self) -> int:
        """Return the lowest offset that the log may hold, inclusive."""
        first = self._segments.first
        return self._log_end_offset if first is None else first.base_offset

    @property
    def log_end_offset(self) -> int:
        """Return the offset behind the last one written, exclusive."""
        return self._log_end_offset

    @property
    def recovery_point(self) -> int:
        """Return the offset below which everything is on the disk, exclusive."""
        return self._recovery_point

    @property
    def last_timestamp_ns(self) -> int:
        """Return the greatest append time in the log; 0 when it never held a record."""
        return self._writer.last_timestamp_ns

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments as they are now, oldest first. Do not change them."""
        return self._segments.snapshot

    @property
    def size_bytes(self) -> int:
        """Return the size of all segment files."""
        return self._segments.size_bytes

    @property
    def failed(self) -> LogFailedError | None:
        """Return the failure that made the log read-only for ever, or None."""
        return self._failed

    @property
    def damaged(self) -> list[str]:
        """Return a line for each damaged place that reads have met since the log was opened."""
        return self._reads.damaged

    def summaries(self) -> list[SegmentSummary]:
        """Return the sums of each segment, oldest first. Do not change them."""
        return [segment.summary for segment in self._segments]

    def append(self, chunks: Sequence[bytes], end_offset: int, sync: bool) -> None:
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
                ever (an advance chunk is written).
            sync: See above.

        Raises:
            ValueError: The chunks are not this log's or not in order; nothing was written.
            LogFailedError: A write or sync failed, now or before. Final: what of these
                chunks is on the disk is unknown until the log is opened anew.
        """
        if self._failed is not None:
            raise self._failed
        if self._options.compression is Compression.ZSTD:
            compressor = ChunkCompressor(self._options.compression_bytes_min)
            chunks = [compressor.compress(chunk) for chunk in chunks]
        headers = self._writer.check(chunks, end_offset)
        self._append(chunks, headers, end_offset, sync, ADVANCE_SKIPPED)

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
        return self._reads.read(offset, self._log_end_offset, max_bytes, max_records)

    def read_window(self, offset: int, max_records: int) -> ReadResult:
        """Return the records of about a mebibyte of one file, from the one at `offset` on.

        For reading on in order without reading anything twice: a window ends between chunks.
        The records are one part, of a mapping if their segment is sealed; they are in the page
        cache, their CRCs are checked. Otherwise as `read`.

        Args:
            offset: Where to begin; below `log_start_offset` means there.
            max_records: >= 1.

        Raises:
            LogFailedError: A file cannot be read. The log itself does not fail by it.
        """
        return self._reads.read_window(offset, self._log_end_offset, max_records)

    def first_offset_at(self, timestamp_ns: int) -> int:
        """Return the offset of the first record appended at or after a time.

        Nanoseconds since 1970 UTC. `log_end_offset` when there is none. Costs the reading of
        one interval of the sparse index.

        Raises:
            LogFailedError: A file cannot be read.
        """
        return self._reads.first_offset_at(timestamp_ns, self._log_end_offset)

    def index_statistics(self) -> IndexStatistics:
        """Count what the sparse indexes hold; asks the file system for their sizes."""
        return self._indexes.statistics(self._segments.snapshot)

    def transient_ranges(self, start: int) -> list[tuple[int, int]]:
        """Return the offsets >= `start` whose records are not PERSISTENT, as ranges.

        Segments and chunks without such records are skipped by their sums. A range may
        span offsets that are not in the log. Joined where they touch; in order.

        Raises:
            LogFailedError: A file cannot be read.
        """
        try:
            return transient_ranges(
                self._segments.snapshot, start, self._log_end_offset, *self._scanning
            )
        except OSError as error:
            raise LogFailedError(self.directory, error) from error

    def transaction_counts(self, start: int) -> Mapping[bytes, int]:
        """Return how many PERSISTENT records of each transaction lie in chunks from `start` on.

        Raises:
            LogFailedError: A file cannot be read.
        """
        try:
            return transaction_counts(self._segments.snapshot, start, *self._scanning)
        except OSError as error:
            raise LogFailedError(self.directory, error) from error

    def has_settled_segment(self, floor: int) -> bool:
        """Tell whether `remove_settled(floor)` might find a segment to remove. O(1)."""
        first = self._segments.first
        return first is not None and len(self._segments) > 1 and first.end_offset <= floor

    def remove_settled(self, floor: int) -> int:
        """Remove sealed segments that lie wholly below `floor`; return the bytes freed.

        The last segment always stays, so an emptied log keeps its end offset.

        Args:
            floor: Offsets below it are settled, and that is on the disk.

        Raises:
            LogFailedError: A file cannot be removed.
        """
        try:
            return self.reclaim.remove(floor)
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
        last = self._segments.last
        if last is None or not last.summary.chunk_count:
            return False
        if not last.is_sealed and self._writer.is_old(last, now_ns):
            return True
        is_kept = keep_since_ns is not None and last.summary.last_timestamp_ns >= keep_since_ns
        emptied_bytes = min(EMPTIED_BYTES, self._options.segment_bytes)
        return last.end_offset <= floor and last.size_bytes >= emptied_bytes and not is_kept

    def roll(self) -> None:
        """Seal the last segment and begin an empty one; nothing happens in an empty log.

        Everything so far is on the disk when this returns.

        Raises:
            LogFailedError: A write or sync failed, now or before.
        """
        if self._failed is not None:
            raise self._failed
        last = self._segments.last
        if last is None or not last.summary.chunk_count:
            return
        try:
            self._writer.roll()
        except OSError as error:
            raise self.fail(self._writer.path, error) from error
        self._take_created()
        self._recovery_point = self._log_end_offset

    def close(self) -> None:
        """Put everything on the disk and close the files. The log is not used afterwards.

        Raises:
            LogFailedError: The last sync failed.
        """
        try:
            if self._failed is None and self._recovery_point < self._log_end_offset:
                self.append([], self._log_end_offset, sync=True)
            if self._writer.active is not None:
                self._writer.store_index(self._writer.active)
        finally:
            self._forget_files(self._segments.snapshot)

    def delete(self) -> None:
        """Remove the directory with all that is in it; the log is not used afterwards.

        Raises:
            LogFailedError: Something could not be removed.
        """
        segments = self._segments.snapshot
        self._segments.clear()
        # Nothing is stored any more in the directory that is about to be removed.
        self._indexes.close()
        try:
            remove_directory(self.directory, self._filesystem)
        except OSError as error:
            raise self.fail(self.directory, error) from error
        finally:
            # Not sooner: a read beside this would open a file again before it is unlinked.
            self._forget_files(segments)

    def fail(self, path: Path, cause: Exception) -> LogFailedError:
        """Make the log read-only for ever and return why; the first failure counts.

        A second fsync on the same descriptor could lie: the kernel may have dropped the
        pages that it could not write.
        """
        if self._failed is None:
            self._failed = LogFailedError(path, cause)
        return self._failed

    def reopen(self) -> RecoveryReport:
        """Take a failed log into use again: its files are opened and recovered anew.

        What the failed append left is taken back first, for nobody was promised it; what it
        had sealed stays, so the log may end behind where it did, never before it. Sound after a
        write that failed for want of room. After a failed sync it is not proven that what was
        written before without a sync is on the disk, though it can be read.

        Raises:
            LogFailedError: It still fails; the log stays as it is.
        """
        end_offset, failed = self._log_end_offset, self._failed
        assert failed is not None, "a log that works is not opened again"
        self._forget_files(self._segments.snapshot)
        try:
            self._writer.take_back(self._segments.snapshot)
        except OSError as error:
            raise LogFailedError(self.directory, error) from error
        # Directories that are there now need not be safe: this log may have made them.
        options = replace(self._options, directories=self._writer.directories)
        anew, report = type(self).open(self.directory, self.identity, options, self._filesystem)
        if anew.log_end_offset < end_offset:
            report.add_lost(anew.log_end_offset, end_offset)
            anew.append([], end_offset, sync=True)
        # Whoever has this log has the new one: all that a log is, and no failure.
        vars(self).update(vars(anew))
        return report

    def _settle_recovery(self, recovered: RecoveredLog) -> None:
        """Put what recovery found on the disk, and go on behind what was lost."""
        if recovered.is_durable:
            return
        writer = self._writer
        writer.mark_unsynced()
        if recovered.segments and recovered.segments[-1].is_sealed:
            writer.active = recovered.segments[-1]
            self._append([], [], recovered.end_offset, True, ADVANCE_LOST)
            writer.active = None
        self._append([], [], recovered.lost_end_offset, True, ADVANCE_LOST)

    def _forget_files(self, segments: Sequence[Segment]) -> None:
        self._indexes.close()
        for segment in segments:
            self._descriptors.forget(self._filesystem, segment.path)
            self._options.mappings.forget(self._filesystem, segment.path)
            self._indexes.forget(segment)
        self._descriptors.forget(self._filesystem, self.directory / END_FILE_NAME)

    def _take_created(self) -> None:
        if self._writer.created:
            self._segments.add(self._writer.created)
            self._writer.created.clear()

    def _append(
        self,
        chunks: Sequence[bytes],
        headers: Sequence[ChunkHeader],
        end_offset: int,
        sync: bool,
        gap_reason: int,
    ) -> None:
        writer = self._writer
        try:
            writer.append(chunks, headers, end_offset, sync, gap_reason)
        except OSError as error:
            raise self.fail(writer.path, error) from error
        self._take_created()
        self._log_end_offset = end_offset
        if sync:
            self._recovery_point = end_offset
