"""Giving back the disk space of one log."""

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

    What changes something belongs to one thread at a time, beside one that appends and any
    that read.

    Args:
        directory: Of the log.
        identity: Of the log.
        options: Of the log.
        filesystem: All file calls go through it.
        segments: Of the log.
        indexes: Of the segments.

    Attributes:
        retention_bytes: Of segments that were removed whole since the log was opened.
        compaction_bytes: By which rewritten segments became smaller.
        compacted_segments: Segments rewritten.
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
        """Remove the oldest segments; see `Log.remove_settled`.

        Raises:
            OSError: A file cannot be removed.
        """
        context = self._context
        removed: list[Segment] = []
        while (segment := self._segments.first) is not None and len(self._segments) > 1:
            if not segment.is_sealed or segment.end_offset > floor:
                break
            removed.append(self._segments.remove_first())
        remove_segments(context.directory, removed, context.filesystem, context.descriptors)
        self._forget(removed)
        freed_bytes = sum(segment.size_bytes for segment in removed)
        self.retention_bytes += freed_bytes
        return freed_bytes

    def compact(self, segment: Segment, live: Sequence[Range], live_bytes_max: int) -> int:
        """Rewrite a sealed segment without what is settled of it; return the bytes freed.

        Nothing happens when the segment is not in the log any more, or the last one.

        Args:
            segment: Of `Log.segments`: sealed, and wholly below the recovery point, unless the
                log need not outlive the process.
            live: What of it is not settled on the disk: ranges, ascending and disjoint.
            live_bytes_max: More than this is not worth it.

        Raises:
            CompactionAbandonedError: Damage, or too much is live; everything is as it was.
            OSError: A file operation failed; likewise. The log does not fail by it.
        """
        if segment not in self._segments or segment is self._segments.last:
            return 0
        compacted = rewrite(self._context, segment, live, live_bytes_max)
        freed_bytes = swap_in(self._context, self._segments, compacted)
        self._forget([segment])
        self.compaction_bytes += freed_bytes
        self.compacted_segments += 1
        return freed_bytes

    def removed_ranges(self, start: int) -> list[Range]:
        """Return what compaction removed at or above `start`: no records are there any more.

        All of it was settled once, whatever a checkpoint says. Nothing is told of a segment with
        more than 4096 ranges.

        Raises:
            LogFailedError: A file cannot be read. The log itself does not fail by it.
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

    def _forget(self, segments: Sequence[Segment]) -> None:
        """Let go of what is kept in memory of segments whose files are unlinked."""
        for segment in segments:
            self._indexes.forget(segment)
            self._mappings.forget(self._context.filesystem, segment.path)
