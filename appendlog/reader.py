"""Reading a log from another process, without the broker and without changing anything.

A `LogReader` is a view of one log directory as it was when it was opened: it never looks
past the durable end. `plan_splits` cuts a range of offsets into pieces that tile it
exactly and can be read anywhere, in any order; a split is plain data and picklable.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from appendlog.errors import CorruptRecordError, LogError, OffsetOutOfRangeError
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.identity import LogIdentity
from appendlog.layout.format import SEGMENT_MAGIC
from appendlog.layout.segment_header import (
    SEGMENT_HEADER_BYTES_MAX,
    SegmentHeader,
    decode_segment_header,
    segment_header_bytes,
)
from appendlog.layout.summary import SegmentSummary
from appendlog.options import INDEX_INTERVAL_BYTES
from appendlog.recovery.generations import newest_generations
from appendlog.segments.durable_end import DurableEnd, promises_nothing, read_durable_end
from appendlog.segments.mapped_indexes import MappedIndexes
from appendlog.segments.read_result import ReadResult
from appendlog.segments.scan import SegmentScan
from appendlog.segments.sealed import read_sealed
from appendlog.segments.segment import Segment, SegmentName
from appendlog.segments.segment_indexes import SegmentIndexes
from appendlog.segments.segment_reader import ReadRequest, SegmentReader
from appendlog.segments.time_search import first_offset_at

SPLIT_BYTES: Final = 16 << 20
BATCH_RECORDS: Final = 8192
BATCH_BYTES: Final = 4 << 20

_MAGIC_OCTETS: Final = SEGMENT_MAGIC.to_bytes(4, "little")


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of one segment: the offsets `[start_offset, end_offset)`.

    Attributes:
        segment_base_offset: Which segment.
        generation: Which compaction of it.
        start_position: A chunk start at or before `start_offset`; a hint that is checked.
        end_position: Where `end_offset` stands, as far as the index tells; a hint.
        start_offset: Inclusive.
        end_offset: Exclusive.
    """

    segment_base_offset: int
    generation: int
    start_position: int
    end_position: int
    start_offset: int
    end_offset: int


class LogReader:
    """A read-only view of one log directory; open it anew to see what was added.

    Args:
        directory: Of the log. One that is missing or holds no segment is an empty log.
        filesystem: The operating system's by default.
        skip_damage: False raises CorruptRecordError at damage; True goes on behind it, and
            `ReadResult.lost` tells what was skipped.

    Attributes:
        identity: Whose log it is; None when it is empty.
        log_start_offset: Lowest offset, inclusive.
        log_end_offset: Durable end, exclusive.

    Raises:
        UnsupportedFormatError: A segment is of another format version.
        LogError: There are segments, but no header is readable.
        OSError: A file cannot be read.
    """

    def __init__(
        self, directory: Path, filesystem: FileSystem | None = None, skip_damage: bool = False
    ) -> None:
        self.directory: Final = directory
        self.identity: LogIdentity | None = None
        self.log_start_offset = self.log_end_offset = 0
        self._filesystem = filesystem or FileSystem()
        self._descriptors = Descriptors(capacity=4)
        self._places: SegmentIndexes
        self._skip_damage = skip_damage
        self._segments: list[Segment] = []
        self._durable: DurableEnd | None = None
        names = newest_generations(directory, self._filesystem)
        if names:
            self._load(names)

    def close(self) -> None:
        """Close the files that are still open; they are opened again when needed."""
        self._descriptors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def summaries(self) -> list[SegmentSummary]:
        """Return the sums of each segment, oldest first; the last one's are not known."""
        return [segment.summary for segment in self._segments]

    def plan_splits(
        self, start: int | None = None, end: int | None = None, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        """Cut `[start, end)` into splits of about `split_bytes`, in order, without gaps.

        The first split starts at `start`, each begins where the one before ends, and the
        last one ends at `end`. A split never spans segments. Reads indexes only; one that is
        missing or cannot be right is put together in memory from the chunk headers.

        Args:
            start: Inclusive; the log's start by default.
            end: Exclusive; the durable end by default.
            split_bytes: Size to aim at, >= 1.

        Raises:
            OffsetOutOfRangeError: Part of the range is not, or not any more, in the log.
        """
        first = self.log_start_offset if start is None else start
        last = self.log_end_offset if end is None else end
        for offset in (first, last):
            if not self.log_start_offset <= offset <= self.log_end_offset:
                raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        splits: list[Split] = []
        for at, segment in enumerate(self._segments):
            stop = self._segments[at + 1].base_offset if at + 1 < len(self._segments) else last
            low, high = max(first, segment.base_offset), min(last, stop)
            if low < high:
                splits += self._cut(segment, low, high, split_bytes)
        return splits

    def read_split(
        self, split: Split, batch_records: int = BATCH_RECORDS, batch_bytes: int = BATCH_BYTES
    ) -> Iterator[ReadResult]:
        """Return the records of a split, in batches; an empty batch is never returned.

        Args:
            split: Of this log; may have been planned by another reader object.
            batch_records: At most this many in a batch, >= 1.
            batch_bytes: A batch ends once its messages reach this, >= 1.

        Raises:
            OffsetOutOfRangeError: Retention removed the segment since the planning.
            CorruptRecordError: Damage, unless it is to be skipped.
        """
        segment = self._segment(split)
        reader = self._segment_reader()
        offset, position = split.start_offset, split.start_position
        likely_end = split.end_position
        if segment.name.generation != split.generation:
            position = likely_end = 0
        is_checked = False
        while offset < split.end_offset:
            batch = ReadResult(next_offset=offset)
            try:
                if not is_checked:
                    position = reader.checked(segment, position, offset)
                    is_checked = True
                position = reader.read(
                    ReadRequest(
                        segment,
                        position,
                        split.end_offset,
                        batch_records,
                        batch_bytes,
                        batch,
                        likely_end=likely_end,
                        max_windows=1,
                    )
                )
            except FileNotFoundError:
                # Compacted, or removed by retention; what is left of it is read on from here.
                segment = self._successor(segment)
                position, likely_end, is_checked = 0, 0, False
                continue
            if position >= segment.data_bytes:
                batch.next_offset = split.end_offset
            offset = batch.next_offset
            if batch.parts or batch.lost:
                yield batch

    def read(self, start: int | None = None, end: int | None = None) -> Iterator[ReadResult]:
        """Return the records of `[start, end)` in batches; see `plan_splits`, `read_split`."""
        for split in self.plan_splits(start, end):
            yield from self.read_split(split)

    def first_offset_at(self, timestamp_ns: int) -> int:
        """Return the offset of the first record appended at or after a time.

        Nanoseconds since 1970 UTC. The log end offset when there is none.
        """
        if not self._segments:
            return self.log_end_offset
        return first_offset_at(
            self._segments,
            timestamp_ns,
            self.log_end_offset,
            self._places,
            self._segment_reader(),
        )

    def _load(self, names: list[SegmentName]) -> None:
        header = self._first_header(names)
        if header is None:
            if len(names) == 1 and self._is_beginning(names[0]):
                return
            raise LogError(f"{self.directory}: {len(names)} segments, none with a readable header")
        if self.identity is None:
            self._begin(header.identity)
        durable = read_durable_end(self._filesystem, self.directory, header.identity.incarnation)
        self._durable = durable
        if durable is not None:
            names = [name for name in names if name.base_offset <= durable.segment_base_offset]
        self._segments = [self._look_at(name, is_last=name is names[-1]) for name in names]
        for before, after in pairwise(self._segments):
            before.summary.end_offset = max(before.summary.end_offset, after.base_offset)
        self.log_start_offset = names[0].base_offset if names else 0
        if self._segments:
            self.log_end_offset = self._find_end(self._segments[-1], durable)

    def _begin(self, identity: LogIdentity) -> None:
        self.identity = identity
        self._places = SegmentIndexes(
            self._filesystem,
            self._descriptors,
            MappedIndexes(capacity=4),
            identity.salt,
            INDEX_INTERVAL_BYTES,
            os.O_RDONLY,
            is_owner=False,
        )

    def _look_at(self, name: SegmentName, *, is_last: bool) -> Segment:
        # Compacted ones are sealed too when an `end` from before speaks of them.
        segment = self._sealed(name) if not is_last or name.generation else None
        return segment or self._unsealed(name)

    def _first_header(self, names: list[SegmentName]) -> SegmentHeader | None:
        for name in names:
            path = self.directory / name.file_name
            data = self._filesystem.read_file(path, SEGMENT_HEADER_BYTES_MAX)
            header = decode_segment_header(data, path)
            if header is not None:
                return header
        return None

    def _is_beginning(self, name: SegmentName) -> bool:
        """Tell whether the writer has just begun, or was cut off in, its first segment.

        Nothing of such a log was ever on the disk, or `end` would say so.
        """
        octets = self._filesystem.read_file(self.directory / name.file_name, len(_MAGIC_OCTETS))
        return _MAGIC_OCTETS.startswith(octets) and promises_nothing(
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
        """Bound the last segment by the durable end, or by its last valid chunk."""
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

    def _cut(self, segment: Segment, low: int, high: int, split_bytes: int) -> list[Split]:
        splits = []
        start, position = low, segment.header_bytes
        for entry in self._places.entries(segment):
            if entry.offset <= low:
                position = entry.position
            elif entry.offset >= high:
                splits.append(Split(*segment.name, position, entry.position, start, high))
                return splits
            elif entry.position - position >= split_bytes:
                splits.append(Split(*segment.name, position, entry.position, start, entry.offset))
                start, position = entry.offset, entry.position
        splits.append(Split(*segment.name, position, segment.data_bytes, start, high))
        return splits

    def _segment(self, split: Split) -> Segment:
        for segment in self._segments:
            if (
                segment.base_offset == split.segment_base_offset
                and segment.name.generation >= split.generation
            ):
                return segment
        raise OffsetOutOfRangeError(split.start_offset, self.log_start_offset, self.log_end_offset)

    def _successor(self, gone: Segment) -> Segment:
        """Return the next generation of a segment whose file is not there any more."""
        for name in newest_generations(self.directory, self._filesystem):
            if name.base_offset == gone.base_offset and name.generation > gone.name.generation:
                segment = self._sealed(name)
                if segment is not None:
                    self._segments[self._segments.index(gone)] = segment
                    return segment
        raise OffsetOutOfRangeError(gone.base_offset, self.log_start_offset, self.log_end_offset)

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
