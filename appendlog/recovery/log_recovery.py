"""Recovery of a log: its segments, its end, and the effects of a crash or of damage.

Footers describe the sealed segments. A footer is trusted only because a later segment exists:
sealing puts the whole segment on the disk before the next one is made. The last segment, sealed or
not, is read chunk by chunk (`segment_recovery`). Files that only have the name of a segment are not
touched (`own_segments`).

Source: docs/log-format.md, section 9.
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from appendlog.errors import MisplacedSegmentError
from appendlog.recovery.generations import remove_leftovers
from appendlog.recovery.own_segments import ForeignFile, OwnSegments, own_segments
from appendlog.recovery.segment_recovery import RecoveryContext, SegmentRecovery
from appendlog.segments.append_clock import ahead_ns
from appendlog.segments.durable_end import DurableEnd
from appendlog.segments.segment import Segment, SegmentName


@dataclass(slots=True)
class RecoveredLog:
    """Result of a recovery, for the log.

    Attributes:
        segments: Segments in order; the last one may be sealed.
        end_offset: Log end offset according to the files.
        lost_end_offset: Offset at which the log must continue; above `end_offset` if the durable
            end says that later records were once on the disk.
        durable_end: Last valid slot of the `end` file, or None.
        matches_end_file: Whether the `end` file covers every byte that was found, and nothing
            after it is missing.
        foreign_files: Names in the directory that no segment of the log can have.
    """

    segments: list[Segment] = field(default_factory=list)
    end_offset: int = 0
    lost_end_offset: int = 0
    durable_end: DurableEnd | None = None
    matches_end_file: bool = True
    foreign_files: frozenset[SegmentName] = frozenset()


def recover(context: RecoveryContext) -> RecoveredLog:
    """Read a log directory, repair what a crash left, and fill in the context's report.

    A directory that does not exist is an empty log; recovery does not create it.

    Raises:
        MisplacedSegmentError: A segment under a wrong name has offsets that no other has; nothing
            was changed.
        UnsupportedFormatError: A segment is of another format version.
        OSError: A file operation failed.
    """
    started = time.perf_counter()
    recovered = RecoveredLog()
    filesystem = context.filesystem
    report = context.report
    own = own_segments(
        context.directory, context.identity, filesystem, context.descriptors, os.O_RDWR
    )
    if own.listed is not None:
        recovered.durable_end = own.durable_end
        _leave_alone(context, own.foreign_files)
        recovered.foreign_files = frozenset(foreign.name for foreign in own.foreign_files)
        remove_leftovers(
            context.directory, own.listed, own.names, filesystem, recovered.foreign_files
        )
        recovered.segments = _recover_segments(context, own, recovered.durable_end)
    segments = recovered.segments
    for before, after in pairwise(segments):
        # Retention removes files below the floor; any of them may be back after a power cut.
        report.add_lost(max(before.end_offset, context.settled_floor), after.base_offset)
    recovered.end_offset = report.end_offset = segments[-1].end_offset if segments else 0
    _compare_with_durable_end(recovered, context)
    report.segment_count = len(segments)
    report.record_count = sum(segment.summary.record_count for segment in segments)
    report.ahead_ns = ahead_ns(context.directory, _last_time_ns(segments), context.now_ns)
    report.seconds = time.perf_counter() - started
    return recovered


def _leave_alone(context: RecoveryContext, foreign_files: Sequence[ForeignFile]) -> None:
    """Report files that are not segments; raise if one holds a segment that is missing."""
    for foreign in foreign_files:
        renamed = foreign.header_name
        missing = foreign.missing
        if renamed is not None and missing is not None and missing[1] > context.settled_floor:
            path = context.directory / foreign.name.file_name
            raise MisplacedSegmentError(path, renamed.file_name, missing)
        context.report.foreign_files.append(f"{foreign.name.file_name}: {foreign.reason}")


def _last_time_ns(segments: Sequence[Segment]) -> int:
    """Return the append time of the last record; 0 if there is none."""
    summaries = (each.summary for each in reversed(segments) if each.summary.record_count)
    last = next(summaries, None)
    return 0 if last is None else last.last_timestamp_ns


def _compare_with_durable_end(recovered: RecoveredLog, context: RecoveryContext) -> None:
    durable = recovered.durable_end
    once_end = max(context.known_end, durable.recovery_point if durable is not None else 0)
    recovered.lost_end_offset = max(recovered.end_offset, once_end)
    if once_end > recovered.end_offset:
        context.report.add_lost(max(recovered.end_offset, context.settled_floor), once_end)
        context.report.damaged_chunks = max(context.report.damaged_chunks, 1)
        # Write a note of the loss even if `end` and the segments agree: both may be from an earlier
        # time.
        recovered.matches_end_file = False
        return
    if durable is None:
        recovered.matches_end_file = not recovered.segments
        return
    last = recovered.segments[-1] if recovered.segments else None
    recovered.matches_end_file = last is not None and (
        durable.segment_base_offset == last.base_offset
        and durable.position == last.size_bytes
        and durable.recovery_point == recovered.end_offset
    )


def _recover_segments(
    context: RecoveryContext, own: OwnSegments, durable: DurableEnd | None
) -> list[Segment]:
    segments: list[Segment] = []
    previous_timestamp_ns = 0
    for name in own.names:
        is_last = name is own.names[-1]
        segment = None if is_last else own.sealed.get(name)
        if segment is None:
            durable_position = 0
            known = None
            if durable is not None and name == (
                durable.segment_base_offset,
                durable.segment_generation,
            ):
                durable_position = durable.position
                known = durable if is_last else None
            segment = SegmentRecovery(
                context,
                name,
                durable_position,
                is_last,
                previous_timestamp_ns,
                known,
                own.headers.get(name),
            ).run()
        if segment is not None:
            segments.append(segment)
            previous_timestamp_ns = segment.summary.last_timestamp_ns
    return segments
