"""Check of one log: its segments against each other and against the `end` file.

While a server is running, this checks only what is below the durable end: the server writes after
it. If a file disappears during the check, retention or compaction has removed it; then the log is
checked again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from appendlog.checking.problem import Level, Problem, Problems
from appendlog.checking.segment_check import SegmentCheck, SegmentContents, SegmentPlace
from appendlog.errors import UnsupportedFormatError
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.recovery.own_segments import ForeignFile, OwnSegments, own_segments
from appendlog.segments.durable_end import END_FILE_NAME, DurableEnd, read_durable_end
from appendlog.segments.segment import SegmentName, segment_names

ATTEMPTS_MAX: Final = 5
"""Maximum number of checks of a log whose files change during the check."""


@dataclass(slots=True)
class LogCheck:
    """Result of the check of one log.

    Attributes:
        directory: Directory of the log.
        segments: Segments, in order.
        durable_end: Content of the `end` file; None if it has no valid slot.
        problems: Problems found.
        log_start_offset: Lowest offset.
        log_end_offset: Offset after the last one that was checked.
    """

    directory: Path
    segments: list[SegmentContents] = field(default_factory=list)
    durable_end: DurableEnd | None = None
    problems: Problems = field(default_factory=Problems)
    log_start_offset: int = 0
    log_end_offset: int = 0

    @property
    def scanned_bytes(self) -> int:
        """Bytes of segments that were read."""
        return sum(contents.segment.size_bytes for contents in self.segments)

    @property
    def record_count(self) -> int:
        """Number of records found."""
        return sum(contents.segment.summary.record_count for contents in self.segments)


def check_log(
    directory: Path,
    identity: LogIdentity,
    filesystem: FileSystem,
    *,
    is_live: bool,
    is_dense: bool = True,
    on_segment: Callable[[int], None] | None = None,
    settled_floor: int = 0,
) -> LogCheck:
    """Read a whole log and return its problems. Changes nothing.

    Args:
        directory: Directory of the log; a missing directory is an empty log.
        identity: Identity of the log.
        filesystem: File operations.
        is_live: Whether a server may be writing to the log.
        is_dense: Whether every offset must be present or explained, as in durable queues.
        on_segment: Called with the size of each segment that was read, in bytes.
        settled_floor: Offset below which all is known to be settled, so nothing is missing there.
    """
    check = _Check(directory, identity, filesystem, is_live, is_dense, on_segment, settled_floor)
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return check.run()
        except FileNotFoundError:
            continue
        except (OSError, UnsupportedFormatError) as error:
            return _unreadable(directory, error)
    try:
        return check.run()
    except (OSError, UnsupportedFormatError) as error:
        return _unreadable(directory, error)


def _unreadable(directory: Path, error: Exception) -> LogCheck:
    check = LogCheck(directory)
    check.problems.add(Problem(Level.UNREADABLE, "unreadable-log", directory, str(error)))
    return check


class _Check:
    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        filesystem: FileSystem,
        is_live: bool,
        is_dense: bool,
        on_segment: Callable[[int], None] | None,
        settled_floor: int,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._filesystem = filesystem
        self._is_live = is_live
        self._is_dense = is_dense
        self._on_segment = on_segment
        self._settled_floor = settled_floor
        self._result = LogCheck(directory)

    def run(self) -> LogCheck:
        """Check the whole log; may be called again."""
        result = LogCheck(self._directory)
        filesystem = self._filesystem
        self._result = result
        if not filesystem.exists(self._directory):
            return result
        # Before the list: then its segment is in the list, or was removed since.
        result.durable_end = durable = read_durable_end(
            filesystem, self._directory, self._identity.incarnation
        )
        own = own_segments(self._directory, self._identity, filesystem)
        self._note_foreign_files(own.foreign_files)
        names = own.names
        last = names[-1] if names else None
        if self._is_live:
            names = _below(names, durable)
        for name in names:
            try:
                self._check_segment(name, is_last=name is last)
            except FileNotFoundError:
                if not self._is_live or filesystem.exists(self._directory / name.file_name):
                    raise
                # Retention removes the oldest segments first: those before it are gone as well. If
                # a compacted segment has replaced it, that one is still checked.
                result.segments.clear()
        self._check_joints()
        if not self._is_live:
            self._check_end()
            self._check_leftovers(own)
        return result

    def _note_foreign_files(self, foreign_files: Sequence[ForeignFile]) -> None:
        for foreign in foreign_files:
            path = self._directory / foreign.name.file_name
            is_renamed = foreign.header_name is not None
            missing = foreign.missing
            if is_renamed and missing is not None and missing[1] > self._settled_floor:
                text = (
                    f"{foreign.reason}, and no other file has offsets [{missing[0]}, {missing[1]})"
                )
                self._add("misplaced-segment", path, text, missing, level=Level.UNREADABLE)
            else:
                self._add("foreign-segment", path, foreign.reason)

    def _check_segment(self, name: SegmentName, *, is_last: bool) -> None:
        result = self._result
        durable = result.durable_end
        durable_position = 0
        if durable is not None and durable.segment_base_offset == name.base_offset:
            durable_position = durable.position
        before = result.segments[-1].segment.summary if result.segments else None
        place = SegmentPlace(
            self._directory,
            name,
            durable_position if self._is_live and is_last else None,
            durable_position if is_last else 0,
            is_last,
            before.last_timestamp_ns if before else 0,
            self._is_dense,
        )
        contents = SegmentCheck(place, self._identity, self._filesystem, result.problems).run()
        result.segments.append(contents)
        if self._on_segment is not None:
            self._on_segment(contents.segment.size_bytes)

    def _check_joints(self) -> None:
        result = self._result
        if not result.segments:
            return
        result.log_start_offset = result.segments[0].segment.base_offset
        result.log_end_offset = result.segments[-1].segment.end_offset
        for before, after in pairwise(result.segments):
            end = before.footer.end_offset if before.footer else before.segment.end_offset
            start = after.segment.base_offset
            if end < start:
                text = f"offsets [{end}, {start}) before it are in no segment"
                self._add("segment-gap", after.segment.path, text, (end, start))
            elif end > start:
                text = f"it begins at offset {start}, the segment before it ends at {end}"
                self._add("segments-overlap", after.segment.path, text)

    def _check_end(self) -> None:
        result = self._result
        path = self._directory / END_FILE_NAME
        durable = result.durable_end
        if durable is None:
            if self._filesystem.exists(path):
                text = "no valid slot: the end is found by scanning"
                self._add("end-unreadable", path, text, level=Level.HARMLESS)
            return
        if durable.recovery_point > result.log_end_offset:
            offsets = (result.log_end_offset, durable.recovery_point)
            text = (
                f"the log was on the disk up to offset {durable.recovery_point}, "
                f"and ends at {result.log_end_offset}"
            )
            self._add("log-too-short", path, text, offsets)
            return
        last = result.segments[-1].segment if result.segments else None
        if last is None or durable.segment_base_offset != last.base_offset:
            return
        if durable.position > last.size_bytes:
            text = f"{durable.position} bytes of {last.path.name} were on the disk once"
            self._add("log-too-short", path, f"{text}, it has {last.size_bytes}")

    def _check_leftovers(self, own: OwnSegments) -> None:
        known = {*own.names, *(foreign.name for foreign in own.foreign_files)}
        for name in segment_names(self._filesystem.listdir(self._directory)):
            if name not in known:
                text = "a generation that another one has replaced"
                self._add(
                    "old-generation", self._directory / name.file_name, text, level=Level.HARMLESS
                )

    def _add(
        self,
        kind: str,
        path: Path,
        text: str,
        offsets: tuple[int, int] | None = None,
        *,
        level: Level = Level.DAMAGE,
    ) -> None:
        self._result.problems.add(Problem(level, kind, path, text, offsets=offsets))


def _below(names: list[SegmentName], durable: DurableEnd | None) -> list[SegmentName]:
    """Return the segments that are no longer written to, and the one that `end` names."""
    if durable is None:
        return names[:-1]
    return [name for name in names if name.base_offset <= durable.segment_base_offset]
