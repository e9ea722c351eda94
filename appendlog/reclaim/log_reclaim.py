"""Reclaiming the disk space of one log."""

from collections.abc import Sequence
from pathlib import Path

from appendlog.errors import LogFailedError
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.options import LogOptions
from appendlog.reclaim.compaction import CompactionContext, rewrite, swap_in
from appendlog.reclaim.removal import remove_segments
from appendlog.reclaim.removed_ranges import Range
from appendlog.segments.sealed import removed_by_compaction
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import SegmentIndexes
from appendlog.segments.segment_list import SegmentList


class LogReclaim:
    """Removes and rewrites sealed segments of one log.

    Changes belong to one thread at a time; another thread may append and any thread may read at the
    same time.

    Args:
        directory: Directory of the log.
        identity: Identity of the log.
        options: Options of the log.
        filesystem: File operations of the log.
        segments: Segments of the log.
        indexes: Indexes of the segments.

    Attributes:
        unremoved: Segments that are no longer in the log, and whose files could not be removed.
        retention_bytes: Size of the segments removed whole since the log was opened.
        compaction_bytes: Bytes saved by rewriting segments.
        compacted_segments: Number of rewritten segments.
    """

    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        options: LogOptions,
        filesystem: FileSystem,
        segments: SegmentList,
        indexes: SegmentIndexes,
    ) -> None:
        self.unremoved: list[Segment] = []
        self.retention_bytes = 0
        self.compaction_bytes = 0
        self.compacted_segments = 0
        self._context = CompactionContext(
            directory, identity, filesystem, options.descriptors, options.index_interval_bytes
        )
        self._mappings = options.mappings
        self._segments = segments
        self._indexes = indexes

    def remove(self, floor: int) -> int:
        """Remove the oldest segments, and files that an earlier call could not remove.

        See `Log.remove_settled`.

        Raises:
            OSError: The directory cannot be synced.
        """
        context = self._context
        known = self.unremoved
        self.unremoved = removed = list(known)
        while (segment := self._segments.first) is not None and len(self._segments) > 1:
            if not segment.is_sealed or segment.end_offset > floor:
                break
            removed.append(self._segments.remove_first())
        self.unremoved = remove_segments(
            context.directory, removed, context.filesystem, context.descriptors, known
        )
        gone = [segment for segment in removed if segment not in self.unremoved]
        self._evict(removed)
        freed_bytes = sum(segment.size_bytes for segment in gone)
        self.retention_bytes += freed_bytes
        return freed_bytes

    def compact(self, segment: Segment, live: Sequence[Range], live_bytes_max: int) -> int:
        """Rewrite a sealed segment without its settled records; return the bytes freed.

        Does nothing if the segment is no longer in the log, or is the last one.

        Args:
            segment: Segment of `Log.segments`: sealed, and wholly below the recovery point, unless
                the log need not outlive the process.
            live: Ranges of its offsets that are not settled on the disk, ascending and disjoint.
            live_bytes_max: Limit of live bytes; with more, a rewrite frees too little.

        Raises:
            CompactionAbandonedError: Damage, or too many live bytes; everything is unchanged.
            OSError: A file operation failed; likewise. The log does not fail because of it.
        """
        if segment not in self._segments or segment is self._segments.last:
            return 0
        compacted = rewrite(self._context, segment, live, live_bytes_max)
        freed_bytes, left = swap_in(self._context, self._segments, compacted)
        self.unremoved += left
        self._evict([segment])
        self.compaction_bytes += freed_bytes
        self.compacted_segments += 1
        return freed_bytes

    def removed_ranges(self, start: int) -> list[Range]:
        """Return the ranges at or above `start` that compaction removed: no records are there.

        All of them were settled once, whatever a checkpoint says. Skips segments with more than
        4096 ranges, whose lists are not exact.

        Raises:
            LogFailedError: A file cannot be read. The log itself does not fail because of it.
        """
        context = self._context
        try:
            return removed_by_compaction(
                self._segments.snapshot,
                start,
                context.filesystem,
                context.descriptors,
                context.identity.salt,
            )
        except OSError as error:
            raise LogFailedError(context.directory, error) from error

    def _evict(self, segments: Sequence[Segment]) -> None:
        """Remove segments whose files are unlinked from the caches."""
        for segment in segments:
            self._indexes.evict(segment)
            self._mappings.evict(self._context.filesystem, segment.path)
