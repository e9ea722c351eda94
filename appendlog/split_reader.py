"""Reading pieces of a log that another process has planned; opens only the files of the pieces.

A `LogReader`, which knows the ends of the log, makes a plan once. The process that reads a part of
the plan, perhaps on another machine, needs only that part: a `Split`.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from appendlog.errors import CorruptRecordError, OffsetOutOfRangeError
from appendlog.files.descriptors import Descriptors
from appendlog.files.filesystem import FileSystem
from appendlog.layout.summary import SegmentSummary
from appendlog.recovery.generations import newest_generations
from appendlog.segments.damaged_range import DamagedRange
from appendlog.segments.read_result import ReadResult
from appendlog.segments.scan import SegmentScan
from appendlog.segments.sealed import read_footer
from appendlog.segments.segment import Segment, SegmentName
from appendlog.segments.segment_reader import ReadRequest, SegmentReader

BATCH_RECORDS: Final = 8192
BATCH_BYTES: Final = 4 << 20

OnDamage = Callable[[Path, int, int, str], None]
"""Called with (path, position, next offset, reason) at a damaged place; may raise to stop there."""


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of one segment: the offsets `[start_offset, end_offset)`. Plain data, picklable.

    Attributes:
        segment_base_offset: Base offset of the segment.
        generation: Number of compactions of the segment.
        start_position: Start of a chunk at or before `start_offset`; a hint that the reader checks.
        end_position: Position of `end_offset`, as far as the index shows it; a hint.
        start_offset: First offset, inclusive.
        end_offset: End offset, exclusive.
        first_position: Position of the segment's first chunk.
        data_bytes: Position where the chunks that were on the disk ended at the planning; the
            reader reads nothing after it.
        known_end_offset: Offset below which the segment accounts for all offsets, by its footer or
            the durable end. No file holds the offsets from there to the end of the split.
        salt: Salt of the log, which its chunks carry.
    """

    segment_base_offset: int
    generation: int
    start_position: int
    end_position: int
    start_offset: int
    end_offset: int
    first_position: int
    data_bytes: int
    known_end_offset: int
    salt: int


def skip_damage(path: Path, position: int, offset: int, reason: str) -> None:
    """Continue after damage; the result of the read lists it."""


def refuse_damage(path: Path, position: int, offset: int, reason: str) -> None:
    """Stop the read at damage.

    Raises:
        CorruptRecordError: Always.
    """
    raise CorruptRecordError(path, position, offset, reason)


class SplitReader:
    """Reads splits of one log.

    Args:
        directory: Directory of the log.
        filesystem: File operations; those of the operating system by default.
        on_damage: Called at damage; raises by default. If it returns, the reader skips the damage,
            and `ReadResult.lost` lists the lost offsets.
        descriptors: Cache of open files; one of its own by default.
    """

    def __init__(
        self,
        directory: Path,
        filesystem: FileSystem | None = None,
        on_damage: OnDamage = refuse_damage,
        descriptors: Descriptors | None = None,
    ) -> None:
        self._directory = directory
        self._filesystem = filesystem or FileSystem()
        self._on_damage = on_damage
        # Not `or`: a cache without an open file is empty, and false.
        self._descriptors = Descriptors(capacity=1) if descriptors is None else descriptors

    def close(self) -> None:
        """Close the open file; the reader opens it again when needed."""
        self._descriptors.close()

    def read(
        self,
        split: Split,
        batch_records: int = BATCH_RECORDS,
        batch_bytes: int = BATCH_BYTES,
    ) -> Iterator[ReadResult]:
        """Yield the records of a split, in batches that are never empty.

        Args:
            split: Split of this log.
            batch_records: Limit of records in a batch, >= 1.
            batch_bytes: A batch ends once its messages reach this many bytes, >= 1.

        Raises:
            OffsetOutOfRangeError: Retention has removed the segment since the planning.
            CorruptRecordError: The split is damaged, and `on_damage` raises.
            OSError: A file cannot be read.
        """
        segment = self._planned(split)
        reader = self._segment_reader(split)
        position = split.start_position
        likely_end = split.end_position
        is_checked = False
        offset = split.start_offset
        known_end = split.known_end_offset
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
                # Compaction or retention removed the file; continue in the segment that replaced
                # it.
                segment = self._successor(split, segment)
                position = 0
                likely_end = 0
                is_checked = False
                known_end = segment.end_offset
                continue
            _clip(batch, split)
            if position >= segment.data_bytes:
                self._end_early(batch, segment, max(batch.next_offset, known_end), split)
            offset = batch.next_offset
            if batch.parts or batch.lost or batch.damaged:
                yield batch

    def _end_early(self, batch: ReadResult, segment: Segment, known_end: int, split: Split) -> None:
        """End a batch with its split; offsets that the segment does not account for are lost."""
        batch.next_offset = split.end_offset
        if known_end >= split.end_offset:
            return
        reason = "the segment ends here, and the next one does not begin where it ended"
        self._on_damage(segment.path, segment.data_bytes, known_end, reason)
        batch.lost.append((known_end, split.end_offset))
        place = segment.data_bytes
        end = DamagedRange(segment.path.name, place, place, reason, known_end, split.end_offset)
        batch.damaged = [*batch.damaged, end]

    def damaged_bytes(self, damage: DamagedRange, max_bytes: int) -> bytes:
        """Return the first bytes of a damaged range; fewer if the file is shorter now.

        Args:
            damage: Damaged range from a result of this reader.
            max_bytes: Limit of bytes to return.

        Raises:
            OSError: The file is missing or cannot be read.
        """
        size = min(damage.end_position - damage.start_position, max_bytes)
        path = self._directory / damage.segment
        with self._descriptors.borrow(self._filesystem, path, os.O_RDONLY) as descriptor:
            return self._filesystem.read_all(descriptor, size, damage.start_position)

    def around_record(self, split: Split, offset: int, reason: str) -> DamagedRange:
        """Return the position of the chunk that holds one record, as a damaged range.

        Args:
            split: Split that holds the record.
            offset: Offset of the record.
            reason: What is wrong with the record, in a few words.

        Returns:
            The range; both positions are 0 if compaction has replaced the file.

        Raises:
            OSError: The file cannot be read.
        """
        segment = self._planned(split)
        name = segment.path.name
        try:
            position = self._segment_reader(split).checked(segment, split.start_position, offset)
            around = self._chunk_around(split, segment, position, offset)
        except FileNotFoundError:  # compacted since the planning
            return DamagedRange(name, 0, 0, reason, offset, offset + 1)
        return DamagedRange(name, *around, reason, offset, offset + 1)

    def _chunk_around(
        self, split: Split, segment: Segment, position: int, offset: int
    ) -> tuple[int, int]:
        """Return the start and end of the chunk that holds an offset, searching from a position."""
        with self._descriptors.borrow(self._filesystem, segment.path, os.O_RDONLY) as descriptor:
            scan = SegmentScan(self._filesystem, descriptor, split.data_bytes, split.salt)
            chunk = scan.chunk_at(position, segment.base_offset)
            while chunk is None or chunk.end_offset <= offset:
                found = scan.find_chunk(position, segment.base_offset)
                if found is None:
                    return position, split.data_bytes
                position, chunk = found, scan.chunk_at(found, segment.base_offset)
        return position, position + chunk.chunk_bytes

    def _planned(self, split: Split) -> Segment:
        name = SegmentName(split.segment_base_offset, split.generation)
        segment = Segment(
            self._directory,
            name,
            split.first_position,
            SegmentSummary(name.base_offset, split.end_offset, 0),
        )
        segment.size_bytes = segment.data_bytes = split.data_bytes
        return segment

    def _successor(self, split: Split, gone: Segment) -> Segment:
        """Return the compacted segment that has replaced a missing file."""
        names = newest_generations(self._directory, self._filesystem)
        for name in names:
            if name.base_offset == gone.base_offset and name.generation > gone.name.generation:
                segment = self._compacted(split, name)
                if segment is not None:
                    return segment
        log_start_offset = names[0].base_offset if names else split.end_offset
        raise OffsetOutOfRangeError(
            split.start_offset, log_start_offset, max(log_start_offset, split.end_offset)
        )

    def _compacted(self, split: Split, name: SegmentName) -> Segment | None:
        path = self._directory / name.file_name
        with self._descriptors.borrow(self._filesystem, path, os.O_RDONLY) as descriptor:
            size = self._filesystem.size(descriptor)
            footer = read_footer(self._filesystem, descriptor, split.salt, name.base_offset)
        if footer is None:
            return None
        summary, chunk = footer
        segment = Segment(self._directory, name, split.first_position, summary)
        segment.size_bytes, segment.data_bytes = size, size - len(chunk)
        segment.is_sealed = True
        return segment

    def _segment_reader(self, split: Split) -> SegmentReader:
        return SegmentReader(
            self._filesystem, self._descriptors, split.salt, os.O_RDONLY, self._on_damage
        )


def _clip(batch: ReadResult, split: Split) -> None:
    """Remove damage outside the split from a batch: the neighbour splits report it."""
    start, end = split.start_offset, split.end_offset
    batch.next_offset = min(batch.next_offset, end)
    batch.lost = [(low, min(high, end)) for low, high in batch.lost if low < end]
    if not batch.damaged:
        return
    damaged = []
    for each in batch.damaged:
        low, high = each.start_position, each.end_position
        if each.segment == SegmentName(split.segment_base_offset, split.generation).file_name:
            low, high = max(low, split.start_position), min(high, split.end_position)
        first, last = max(each.start_offset, start), min(each.end_offset, end)
        # A read meets damage before the split if it cannot trust the index.
        if low < high and first <= last:
            damaged.append(
                replace(
                    each, start_position=low, end_position=high, start_offset=first, end_offset=last
                )
            )
    batch.damaged = damaged
