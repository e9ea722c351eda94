"""Reads a split of a log as Arrow record batches that account for every offset."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from appendlog.segments.damaged_range import DamagedRange
from appendlog.segments.read_result import Records
from appendlog.spark.decoding.kernel_decoder import KernelDecoder
from appendlog.spark.decoding.malformed import MalformedMessageError, without_malformed
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.schema.columns import ROWS, RowSchema
from appendlog.split_reader import Split, SplitReader

BATCH_RECORDS: Final = 8192
BATCH_BYTES: Final = 8 << 20
_NO_MESSAGE: Final = "a record that holds no message"


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Rows of the offsets `[start_offset, end_offset)`.

    Each batch of a split begins where the last one ends.

    Attributes:
        rows: Rows with the columns that were asked for; may be empty.
        start_offset: First offset of the batch.
        end_offset: End of the batch, exclusive.
        missing: Ranges of offsets that have no row, in order.
        lost: Those of the missing ranges that were damaged and skipped, in order.
        undecodable: Rows whose headers or properties are malformed.
        damaged: Places of all damage, in order; also of damage that cost no offset.
    """

    rows: pa.RecordBatch
    start_offset: int
    end_offset: int
    missing: Sequence[tuple[int, int]]
    lost: Sequence[tuple[int, int]]
    undecodable: int
    damaged: Sequence[DamagedRange] = ()


def log_batches(
    reader: SplitReader,
    log: QueueLog,
    split: Split,
    schema: RowSchema = ROWS,
    *,
    skip_malformed: bool = False,
) -> Iterator[LogBatch]:
    """Read and decode a split.

    A batch has at most `BATCH_RECORDS` rows, and messages of at most `BATCH_BYTES` and one message.

    Args:
        reader: Reader of the log.
        log: Names of the queue.
        split: Part of the log to read.
        schema: Columns of the rows; other columns cost nothing.
        skip_malformed: Whether to skip a record that is no message, as damage.

    Raises:
        OffsetOutOfRangeError: Retention has removed the segment since the planning.
        CorruptRecordError: The log is damaged, and the reader does not skip damage.
        MalformedMessageError: A record is no message, and `skip_malformed` is false.
    """
    decoder = KernelDecoder(log.vhost, log.queue, schema)
    start = split.start_offset
    for read in reader.read(split, BATCH_RECORDS, BATCH_BYTES):
        undecodable = decoder.undecodable
        parts, lost, damaged = read.parts, read.lost, read.damaged
        try:
            rows = decoder.build(parts)
        except MalformedMessageError:
            if not skip_malformed:
                raise
            decoder.undecodable = undecodable
            parts, offsets = without_malformed(parts)
            rows = decoder.build(parts)
            lost = sorted([*lost, *((offset, offset + 1) for offset in offsets)])
            found = (reader.around_record(split, offset, _NO_MESSAGE) for offset in offsets)
            damaged = sorted([*damaged, *found], key=lambda each: each.start_offset)
        yield LogBatch(
            rows,
            start,
            read.next_offset,
            missing_offsets(parts, start, read.next_offset),
            lost,
            decoder.undecodable - undecodable,
            damaged,
        )
        start = read.next_offset
    if start < split.end_offset:
        missing = [(start, split.end_offset)]
        yield LogBatch(decoder.build([]), start, split.end_offset, missing, [], 0)


def missing_offsets(parts: Sequence[Records], start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges of `[start, end)` without a record, in order."""
    missing: list[tuple[int, int]] = []
    for part in parts:
        first, last = part.offsets[0], part.offsets[-1]
        is_dense = last - first + 1 == len(part)
        for offset in (first,) if is_dense else part.offsets:
            if start < offset:
                missing.append((start, offset))
            start = offset + 1
        start = last + 1
    if start < end:
        missing.append((start, end))
    return missing
