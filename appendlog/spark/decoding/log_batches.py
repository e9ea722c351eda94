"""A split of a log as Arrow record batches, with an account of what is not in them."""

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
    """The rows of the offsets `[start_offset, end_offset)`.

    The batches of a split tile it: each begins where the one before ends.

    Attributes:
        rows: Of the schema asked for; may be empty.
        start_offset: Inclusive.
        end_offset: Exclusive.
        missing: Ranges of offsets in it that have no row, in order.
        lost: Ranges that were damaged and skipped, in order: missing too.
        damaged: The bytes of these, in order, and of damage that cost no offset.
        undecodable: Rows with null headers or properties, because their bytes do not add up.
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
    """Read and decode a split; a batch has at most `BATCH_RECORDS` rows.

    Its messages are `BATCH_BYTES` at most, or that and one message if one is larger.

    Args:
        reader: Of the log.
        log: Whose it is.
        split: Of it.
        schema: Columns to make; others cost nothing.
        skip_malformed: Whether a record that is no message is damage that was skipped.

    Raises:
        OffsetOutOfRangeError: Retention removed the segment since the planning.
        CorruptRecordError: Damage, unless the reader skips it.
        MalformedMessageError: A record is no message, and is not to be skipped.
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
    """Return the ranges of `[start, end)` in which there is no record, in order."""
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
