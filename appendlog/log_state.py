"""Open parts of a log, from one recovery of its files to the next."""

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

from appendlog.append import Append
from appendlog.errors import LogFailedError
from appendlog.files.filesystem import FileSystem
from appendlog.files.found_files import FoundFiles
from appendlog.identity import LogIdentity
from appendlog.layout.format import GAP_LOST
from appendlog.options import LogOptions
from appendlog.reclaim.log_reclaim import LogReclaim
from appendlog.recovery.log_recovery import RecoveredLog
from appendlog.segments.durable_end import END_FILE_NAME
from appendlog.segments.log_reads import LogReads
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import SegmentIndexes
from appendlog.segments.segment_list import SegmentList
from appendlog.segments.segment_reader import SegmentReader
from appendlog.segments.segment_writer import SegmentWriter


class LogState:
    """Segments of a log, and the parts that write, read, find and remove them.

    A `Log` has one at a time.

    Args:
        directory: Directory of the log.
        identity: Identity of the log.
        options: Options of the log.
        filesystem: File operations of the log.
        recovered: Result of the recovery of the files.

    Attributes:
        segments: Segments of the log.
        writer: Appends to the last segment.
        reads: Reads the segments.
        indexes: Find places in the segments.
        reclaim: Removes and rewrites sealed segments.
        scanning: Arguments of a segment scan: file system, descriptors, salt.
        log_end_offset: Offset after the last one written.
        recovery_point: Offset below which everything is on the disk.
        failed: Failure that made the log read-only, or None.
    """

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
        self.options = options
        self.filesystem: Final = filesystem
        self.segments: Final = SegmentList(recovered.segments)
        last = recovered.segments[-1] if recovered.segments else None
        filled = [each.summary for each in recovered.segments if each.summary.record_count]
        self.writer: Final = SegmentWriter(
            directory,
            identity,
            options,
            filesystem,
            recovered.durable_end.generation if recovered.durable_end else 0,
            None if last is None or last.is_sealed else last,
            recovered.end_offset,
            last.summary.last_timestamp_ns if last else 0,
            recovered.foreign_files,
            steps_back=any(
                after.first_timestamp_ns < before.last_timestamp_ns
                for before, after in pairwise(filled)
            ),
        )
        self.indexes: Final = SegmentIndexes(
            filesystem,
            options.descriptors,
            options.indexes,
            identity.salt,
            options.index_interval_bytes,
            os.O_RDWR,
            is_owner=True,
        )
        self.reads: Final = LogReads(self.segments)
        self.reads.indexes = self.indexes
        self.reads.reader = SegmentReader(
            filesystem,
            options.descriptors,
            identity.salt,
            os.O_RDWR,
            self.reads.damaged_places.note,
            options.mappings,
        )
        self.reclaim: Final = LogReclaim(
            directory, identity, options, filesystem, self.segments, self.indexes
        )
        self.scanning: Final = (filesystem, options.descriptors, identity.salt)
        self.log_end_offset = self.recovery_point = recovered.end_offset
        self.failed: LogFailedError | None = None

    def change_options(self, options: LogOptions) -> None:
        """Use other options from the next append on; see `Log.change_options`."""
        self.options = options
        self.writer.change_options(options)

    def append(self, append: Append) -> None:
        """Check and write an append; see `Log.append`.

        Raises:
            ValueError: The chunks are not this log's or not in order; nothing was written.
            LogFailedError: A file operation failed.
        """
        try:
            self.writer.append(append)
        except LogFailedError as error:
            raise self.fail(error) from error.cause
        if self.writer.created:
            self._take_created()
        self.log_end_offset = append.end_offset
        if append.sync:
            self.recovery_point = append.end_offset

    def roll(self) -> None:
        """Seal the last segment and begin an empty one; everything is on the disk then.

        Raises:
            LogFailedError: A file operation failed.
        """
        try:
            self.writer.roll()
        except LogFailedError as error:
            raise self.fail(error) from error.cause
        self._take_created()
        self.recovery_point = self.log_end_offset

    def fail(self, failure: LogFailedError) -> LogFailedError:
        """Make the log read-only and return its failure; only the first one counts."""
        if self.failed is None:
            self.failed = failure
        return self.failed

    def settle_recovery(
        self, recovered: RecoveredLog, found_files: FoundFiles | None = None
    ) -> None:
        """Write the result of recovery to the disk, and continue after the lost offsets.

        Args:
            recovered: Result of the recovery.
            found_files: See `Log.open`.

        Raises:
            LogFailedError: A file operation failed.
        """
        if recovered.matches_end_file:
            return
        writer = self.writer
        if not self._are_found_synced(recovered, found_files):
            writer.mark_unsynced()
        if recovered.segments and recovered.segments[-1].is_sealed:
            writer.active = recovered.segments[-1]
            self.append(Append([], recovered.end_offset, sync=True, gap_reason=GAP_LOST))
            writer.active = None
        self.append(Append([], recovered.lost_end_offset, sync=True, gap_reason=GAP_LOST))

    def close_files(self, segments: Sequence[Segment]) -> None:
        """Stop storing indexes; close and unmap the files of these segments."""
        self.indexes.close()
        descriptors = self.options.descriptors
        for segment in segments:
            descriptors.evict(self.filesystem, segment.path)
        descriptors.evict(self.filesystem, self.directory / END_FILE_NAME)
        self.unmap(segments)

    def unmap(self, segments: Sequence[Segment]) -> None:
        """Unmap these segments and their indexes."""
        for segment in segments:
            self.options.mappings.evict(self.filesystem, segment.path)
            self.indexes.evict(segment)

    def _are_found_synced(self, recovered: RecoveredLog, found_files: FoundFiles | None) -> bool:
        """Return whether the files of the log are on the disk; may sync all of a file system."""
        if found_files is None or not recovered.segments:
            return False
        try:
            return found_files.are_synced(self.filesystem, self.directory)
        except OSError as error:
            raise self.fail(LogFailedError(self.directory, error)) from error

    def _take_created(self) -> None:
        self.segments.add(self.writer.created)
        self.writer.created.clear()
