"""Reading a log from another process, without the broker and without changing anything.

A `LogReader` is a view of one log directory at the time of its opening: it never reads past
the durable end. `plan_splits` cuts a range of offsets into pieces without gaps or overlaps.
Any process can read these pieces in any order; a split is plain data and picklable.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from appendlog.errors import CorruptRecordError, LogError, OffsetOutOfRangeError
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.format import SEGMENT_MAGIC
from appendlog.layout.segment_header import segment_header_bytes
from appendlog.layout.summary import SegmentSummary
from appendlog.options import INDEX_INTERVAL_BYTES
from appendlog.recovery.generations import newest_generations
from appendlog.recovery.log_owner import is_as_named, log_owner
from appendlog.recovery.own_segments import is_fitting, own_segments
from appendlog.segments.durable_end import DurableEnd, has_no_durable_end, read_durable_end
from appendlog.segments.looked_up import LookedUpSegments
from appendlog.segments.mapped_indexes import MappedIndexes
from appendlog.segments.read_result import ReadResult
from appendlog.segments.scan import SegmentScan
from appendlog.segments.sealed import read_sealed
from appendlog.segments.segment import Segment, SegmentName
from appendlog.segments.segment_indexes import SegmentIndexes
from appendlog.segments.segment_reader import SegmentReader
from appendlog.segments.time_search import TimeSearch
from appendlog.split_reader import BATCH_BYTES, BATCH_RECORDS, Split, SplitReader

SPLIT_BYTES: Final = 16 << 20

Found = TypeVar("Found")

_MAGIC_OCTETS: Final = SEGMENT_MAGIC.to_bytes(4, "little")


class LogReader:
    """Read-only view of one log directory; open it again to see what was added.

    Args:
        directory: Directory of the log. A missing directory, or one without segments, is an empty
            log.
        filesystem: File operations; those of the operating system by default.
        skip_damage: False raises CorruptRecordError at damage; True continues after it, and
            `ReadResult.lost` lists the skipped offsets.

    Attributes:
        identity: Identity of the log; None if the log is empty.
        log_end_offset: Durable end of the log, exclusive.

    Raises:
        UnsupportedFormatError: A segment is of another format version.
        LogError: There are segments, but no segment has a readable header.
        OSError: A file cannot be read.
    """

    _treats_lost_ends_as_damage = True
    """Whether offsets below the durable end are read as damage when their segment is missing."""

    def __init__(
        self, directory: Path, filesystem: FileSystem | None = None, skip_damage: bool = False
    ) -> None:
        self.directory: Final = directory
        self.identity: LogIdentity | None = None
        self.log_end_offset = 0
        self._filesystem = filesystem or FileSystem()
        self._descriptors = Descriptors(capacity=4)
        self._indexes = MappedIndexes(capacity=4)
        self._places: SegmentIndexes
        self._skip_damage = skip_damage
        self._segments: Sequence[Segment] = ()
        self._names: list[SegmentName] = []
        # End offsets from the footers, by segment; segments without a footer are not in it.
        self._stated_ends: dict[SegmentName, int] = {}
        self._durable: DurableEnd | None = None
        # Whether some segments do not fit together. Then, from the next listing on, the reader
        # checks headers, not only file names.
        self._has_misfits = False
        self._checks_headers = False
        self._known_first: SegmentName | None = None
        names = self._list()
        if names:
            self._load(names)

    def close(self) -> None:
        """Close the open files; the reader opens them again when needed."""
        self._descriptors.close()
        self._indexes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def log_start_offset(self) -> int:
        """Lowest offset, inclusive. Reads the first segment once.

        Raises:
            OSError: The segment cannot be read.
        """
        first = self._names[0] if self._names else None
        if first is not None and first != self._known_first:
            with suppress(FileNotFoundError):  # retention has removed it
                if not self._is_own(first):
                    self._load(self._list())
            self._known_first = self._names[0] if self._names else None
        return self._start

    @property
    def _start(self) -> int:
        return self._names[0].base_offset if self._names else 0

    def summaries(self) -> list[SegmentSummary]:
        """Return the sums of each segment, oldest first; those of the last one are not known."""
        return self._with_own_segments(lambda: [segment.summary for segment in self._segments])

    def plan_splits(
        self, start: int | None = None, end: int | None = None, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        """Cut `[start, end)` into splits of about `split_bytes`, in order, without gaps.

        The first split begins at `start`, each begins where the one before ends, and the last one
        ends at `end`. A split never spans segments. This reads only indexes; for an index that is
        missing or wrong, it builds one in memory from the chunk headers.

        Args:
            start: First offset, inclusive; the start of the log by default.
            end: End offset, exclusive; the durable end by default.
            split_bytes: Target size of a split in bytes, >= 1.

        Raises:
            OffsetOutOfRangeError: The log does not hold all of the range, or not any more.
        """
        return self._with_own_segments(lambda: self._plan(start, end, split_bytes))

    def _plan(self, start: int | None, end: int | None, split_bytes: int) -> list[Split]:
        first = self.log_start_offset if start is None else start
        last = self.log_end_offset if end is None else end
        for offset in (first, last):
            if not self._start <= offset <= self.log_end_offset:
                raise OffsetOutOfRangeError(offset, self._start, self.log_end_offset)
        splits: list[Split] = []
        for at, name in enumerate(self._names):
            is_last = at + 1 == len(self._names)
            stop = last if is_last else self._names[at + 1].base_offset
            low, high = max(first, name.base_offset), min(last, stop)
            if low < high:
                try:
                    segment = self._segments[at]
                    known = self._known_end(segment, is_last=is_last)
                    splits += self._cut(segment, low, high, known, split_bytes)
                except FileNotFoundError as error:
                    raise OffsetOutOfRangeError(low, stop, max(stop, last)) from error
        return splits

    def read_split(
        self, split: Split, batch_records: int = BATCH_RECORDS, batch_bytes: int = BATCH_BYTES
    ) -> Iterator[ReadResult]:
        """Yield the records of a split, in batches that are never empty.

        Args:
            split: Split of this log; another reader object may have planned it.
            batch_records: Limit of records in a batch, >= 1.
            batch_bytes: A batch ends once its messages reach this many bytes, >= 1.

        Raises:
            OffsetOutOfRangeError: Retention has removed the segment since the planning.
            CorruptRecordError: The log is damaged, and `skip_damage` is off.
        """
        reader = SplitReader(self.directory, self._filesystem, self._on_damage, self._descriptors)
        return reader.read(split, batch_records, batch_bytes)

    def read(self, start: int | None = None, end: int | None = None) -> Iterator[ReadResult]:
        """Yield the records of `[start, end)` in batches; see `plan_splits`, `read_split`."""
        for split in self.plan_splits(start, end):
            yield from self.read_split(split)

    def first_offset_at(self, timestamp_ns: int, within: tuple[int, int] | None = None) -> int:
        """Return the lowest offset that was appended at or after a time.

        Later records may be older: append times step back where a clock was set back.

        Args:
            timestamp_ns: Nanoseconds since 1970 UTC.
            within: Range from `segment_ranges`, to search only its segment; by default all.

        Returns:
            The log end offset, or the end of the range, if there is none.
        """
        if not self._segments:
            return self.log_end_offset

        def search() -> int:
            segments = self._segments
            start = 0
            end = self.log_end_offset
            if within is not None:
                start, end = within
                at = bisect_right(self._names, start, key=lambda name: name.base_offset) - 1
                segments = [segments[at]]
            found = self._time_search(segments, end).first_offset_at(timestamp_ns)
            return min(max(found, start), end)

        return self._with_own_segments(search)

    def end_offset_before(self, timestamp_ns: int) -> int:
        """Return the offset from which on nothing was appended before a time.

        The log start offset if nothing was. Earlier records may be from that time or after it;
        where append times ascend, the result is that of `first_offset_at`.

        Args:
            timestamp_ns: Nanoseconds since 1970 UTC.
        """
        if not self._segments:
            return self.log_start_offset
        return self._with_own_segments(
            lambda: self._time_search(self._segments, self.log_end_offset).end_offset_before(
                timestamp_ns
            )
        )

    def segment_ranges(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield `[start, end)` cut where segments begin: append times ascend within each piece."""
        bases = [name.base_offset for name in self._names[1:]]
        for low, high in zip([start, *bases], [*bases, end], strict=True):
            if max(low, start) < min(high, end):
                yield max(low, start), min(high, end)

    def _list(self) -> list[SegmentName]:
        """Return the segments that exist now.

        While all of them fit, by their file names alone; see `own_segments` for the others.
        """
        if self._checks_headers and self.identity is not None:
            return own_segments(self.directory, self.identity, self._filesystem).names
        return newest_generations(self.directory, self._filesystem)

    def _is_own(self, name: SegmentName) -> bool:
        """Return whether a file is the segment of its name; after one mismatch, trust no name."""
        if not self._checks_headers and self.identity is not None:
            self._checks_headers = not is_as_named(
                self.directory, name, self.identity, self._filesystem, self._descriptors
            )
            return not self._checks_headers
        return True

    def _with_own_segments(self, look: Callable[[], Found]) -> Found:
        """Return the result of a look at the segments, once all their files are the log's own."""
        try:
            found = look()
        except IsADirectoryError:
            if self._checks_headers:
                raise
            self._has_misfits = True
        if self._has_misfits:
            self._has_misfits = False
            self._checks_headers = True
            self._load(self._list())
            found = look()
        return found

    def _load(self, names: list[SegmentName]) -> None:
        if self.identity is None:
            owner = log_owner(self.directory, names, self._filesystem, self._descriptors)
            if owner is not None:
                self._begin(owner)
            elif len(names) == 1 and self._is_beginning(names[0]):
                return
            else:
                count = len(names)
                raise LogError(f"{self.directory}: {count} segments, none with a readable header")
        assert self.identity is not None
        durable = read_durable_end(self._filesystem, self.directory, self.identity.incarnation)
        self._durable = durable
        if durable is not None and names[-1].base_offset < durable.segment_base_offset:
            # The writer has begun a segment since the listing, or a segment is missing.
            names = self._list() or names
        names = _below(names, durable)
        if names and not self._is_own(names[-1]):
            names = _below(self._list(), durable)
        self._names = names
        self._segments = LookedUpSegments(
            names, lambda name: self._look_newest(name, is_last=name is names[-1])
        )
        if self._segments:
            self.log_end_offset = self._find_end(self._segments[-1], durable)
            if durable is not None and self._treats_lost_ends_as_damage:
                self.log_end_offset = max(self.log_end_offset, durable.recovery_point)

    def _begin(self, identity: LogIdentity) -> None:
        self.identity = identity
        self._places = SegmentIndexes(
            self._filesystem,
            self._descriptors,
            self._indexes,
            identity.salt,
            INDEX_INTERVAL_BYTES,
            os.O_RDONLY,
            is_owner=False,
        )

    def _look_newest(self, name: SegmentName, *, is_last: bool) -> Segment:
        """Look at a segment, or at the compacted one that has replaced it since the listing."""
        try:
            segment = self._look_at(name, is_last=is_last)
        except FileNotFoundError:
            for newer in self._list():
                if newer.base_offset == name.base_offset and newer != name:
                    segment = self._look_at(newer, is_last=is_last)
                    break
            else:
                raise
        if segment.is_sealed:
            self._stated_ends.setdefault(segment.name, segment.end_offset)
        if not is_last:
            at = bisect_right(self._names, name.base_offset, key=_base_offset)
            following = self._names[at].base_offset
            if not (segment.is_sealed and is_fitting(segment, following)):
                self._has_misfits = not self._checks_headers
        return segment

    def _known_end(self, segment: Segment, *, is_last: bool) -> int:
        """Return the offset below which a segment accounts for all offsets, read or not.

        The next segment should begin there. The base offset if only the chunks can show it: the
        segment has no footer, or is shorter than it was when all of it was on the disk.
        """
        durable = self._durable
        if not is_last or segment.is_sealed or durable is None:
            default = self.log_end_offset if is_last else segment.base_offset
            return self._stated_ends.get(segment.name, default)
        is_whole = durable.segment_base_offset == segment.base_offset
        is_whole = is_whole and segment.data_bytes >= durable.position
        return self.log_end_offset if is_whole else segment.base_offset

    def _look_at(self, name: SegmentName, *, is_last: bool) -> Segment:
        # Compacted segments are sealed too, even if an older `end` file names one as active.
        segment = self._sealed(name) if not is_last or name.generation else None
        return segment or self._unsealed(name)

    def _is_beginning(self, name: SegmentName) -> bool:
        """Return whether the writer has just begun its first segment, or was cut off in it.

        Nothing of such a log was ever on the disk; otherwise the `end` file would say so.
        """
        octets = self._filesystem.read_file(self.directory / name.file_name, len(_MAGIC_OCTETS))
        return _MAGIC_OCTETS.startswith(octets) and has_no_durable_end(
            self._filesystem, self.directory
        )

    def _sealed(self, name: SegmentName) -> Segment | None:
        assert self.identity is not None
        return read_sealed(
            self.directory, self.identity, name, self._filesystem, self._descriptors, os.O_RDONLY
        )

    def _unsealed(self, name: SegmentName) -> Segment:
        assert self.identity is not None
        base = name.base_offset
        segment = Segment(
            self.directory, name, segment_header_bytes(self.identity), SegmentSummary(base, base, 0)
        )
        with self._descriptors.borrow(self._filesystem, segment.path, os.O_RDONLY) as descriptor:
            segment.size_bytes = segment.data_bytes = self._filesystem.size(descriptor)
        return segment

    def _find_end(self, last: Segment, durable: DurableEnd | None) -> int:
        """Set the end of the last segment: the durable end, or the end of its last valid chunk."""
        assert self.identity is not None
        if last.is_sealed:
            return last.end_offset
        if durable is not None and durable.segment_base_offset == last.base_offset:
            last.data_bytes = min(last.data_bytes, durable.position)
            return durable.recovery_point
        position, end_offset = last.header_bytes, last.base_offset
        for entry in self._places.entries(last):
            position, end_offset = entry.position, entry.offset
        with self._descriptors.borrow(self._filesystem, last.path, os.O_RDONLY) as descriptor:
            scan = SegmentScan(self._filesystem, descriptor, last.data_bytes, self.identity.salt)
            if scan.chunk_at(position, end_offset) is None:
                position, end_offset = last.header_bytes, last.base_offset
            found: int | None = position
            while found is not None and found < last.data_bytes:
                chunk = scan.chunk_at(found, end_offset)
                if chunk is None:
                    found = scan.find_chunk(found, end_offset)
                    continue
                end_offset = chunk.end_offset
                found = position = found + chunk.chunk_bytes
        last.data_bytes = max(position, last.header_bytes)
        return end_offset

    def _cut(
        self, segment: Segment, low: int, high: int, known_end: int, split_bytes: int
    ) -> list[Split]:
        splits: list[Split] = []

        def add(position: int, end_position: int, start: int, end: int) -> None:
            splits.append(self._split(segment, position, end_position, start, end, known_end))

        start, position = low, segment.header_bytes
        for entry in self._places.entries(segment):
            if entry.offset <= low:
                position = entry.position
            elif entry.offset >= high:
                add(position, entry.position, start, high)
                return splits
            elif entry.position - position >= split_bytes:
                add(position, entry.position, start, entry.offset)
                start, position = entry.offset, entry.position
        add(position, segment.data_bytes, start, high)
        return splits

    def _split(
        self,
        segment: Segment,
        position: int,
        end_position: int,
        start: int,
        end: int,
        known_end: int,
    ) -> Split:
        assert self.identity is not None
        return Split(
            *segment.name,
            position,
            end_position,
            start,
            end,
            segment.header_bytes,
            segment.data_bytes,
            known_end,
            self.identity.salt,
        )

    def _time_search(self, segments: Sequence[Segment], end: int) -> TimeSearch:
        return TimeSearch(segments, end, self._places, self._segment_reader())

    def _segment_reader(self) -> SegmentReader:
        assert self.identity is not None
        return SegmentReader(
            self._filesystem,
            self._descriptors,
            self.identity.salt,
            os.O_RDONLY,
            self._on_damage,
        )

    def _on_damage(self, path: Path, position: int, offset: int, reason: str) -> None:
        if not self._skip_damage:
            raise CorruptRecordError(path, position, offset, reason)


def _below(names: list[SegmentName], durable: DurableEnd | None) -> list[SegmentName]:
    """Return the segments up to the one that the `end` file names; all without that file."""
    if durable is None:
        return names
    return [name for name in names if name.base_offset <= durable.segment_base_offset]


def _base_offset(name: SegmentName) -> int:
    return name.base_offset
