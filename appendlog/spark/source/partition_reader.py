"""Reads pieces of logs in a task, as Arrow batches of exactly the promised schema."""

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Self

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from appendlog.errors import LogError, OffsetOutOfRangeError
from appendlog.segments.damaged_range import DamagedRange
from appendlog.segments.segment import SegmentName
from appendlog.spark.decoding.damage_document import damage_document
from appendlog.spark.decoding.log_batches import LogBatch, log_batches
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.errors import ReadFailedError, ReadLossError
from appendlog.spark.planning.packing import LogPiece
from appendlog.spark.planning.settlement import OffsetChoice
from appendlog.spark.schema.columns import KNOWN_ROWS, RowSchema
from appendlog.spark.source.decompression import BODY, ENCODING, decompressed
from appendlog.spark.source.log_partition import LogPartition
from appendlog.spark.source.read_options import OnDamage, ReadOptions
from appendlog.spark.source.row_layout import RowLayout
from appendlog.split_reader import SplitReader, refuse_damage, skip_damage
from metadata.name_texts import replaced_text

logger = logging.getLogger("appendlog.spark.source.partition_reader")

CORRUPT_BYTES_MAX: Final = 64 << 10
"""Most bytes of a damaged range in the column for corrupt rows."""
_SHOWN_MAX: Final = 3
_OFFSET: Final = "offset"


@dataclass(frozen=True, slots=True)
class PartitionReader:
    """Reads partitions in a task; picklable.

    Attributes:
        layout: Columns that batches must have.
        on_damage: What to do about damage in a log.
        is_loss_fatal: Whether offsets that retention removed since the planning are an error.
            Otherwise the task logs a warning and reads the rest.
        unpacks_bodies: Whether to unpack bodies that publishers compressed.
    """

    layout: RowLayout
    on_damage: OnDamage
    is_loss_fatal: bool
    unpacks_bodies: bool = False

    @classmethod
    def of(cls, options: ReadOptions, layout: RowLayout) -> Self:
        """Return a reader with these options."""
        return cls(layout, options.on_damage, options.is_loss_fatal, options.unpacks_bodies)

    def __call__(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition.

        If a query has no partition, Spark passes one of its own, which has no rows.

        Raises:
            ReadLossError: Retention has removed a part of it, and losses are fatal.
            ReadFailedError: The log is damaged and damage is an error, or a file cannot be read.
                The message has queue, segment, offset and position.
        """
        if not isinstance(partition, LogPartition):
            return
        choices = partition.choices or (None,) * len(partition.value)
        for piece, choice in zip(partition.value, choices, strict=True):
            yield from self._piece(piece, choice)

    def _piece(self, piece: LogPiece, choice: OffsetChoice | None) -> Iterator[pa.RecordBatch]:
        log = piece.log
        split = piece.split
        on_damage = refuse_damage if self.on_damage is OnDamage.FAILFAST else skip_damage
        next_offset = split.start_offset
        skipped = list[DamagedRange]()
        with closing(SplitReader(log.directory, log.filesystem, on_damage)) as reader:
            try:
                for batch in log_batches(
                    reader,
                    log,
                    split,
                    self._decoded(choice),
                    skip_malformed=self.on_damage is not OnDamage.FAILFAST,
                ):
                    yield from self._rows(reader, piece, batch, choice)
                    next_offset = batch.end_offset
                    skipped += batch.damaged
            except (OffsetOutOfRangeError, FileNotFoundError) as error:
                loss = ReadLossError(log.queue, next_offset, split.end_offset)
                if self.is_loss_fatal:
                    raise loss from error
                logger.warning("%s", loss)
            except MalformedMessageError as error:
                place = reader.around_record(split, error.offset, str(error))
                raise _failed(piece, str(place)) from error
            except (LogError, OSError, pa.ArrowException) as error:
                raise _failed(piece, str(error)) from error
        if skipped:
            _warn(piece, skipped)

    def _decoded(self, choice: OffsetChoice | None) -> RowSchema:
        """Return the columns of the layout, and those from which its rows are made."""
        decoded = self.layout.decoded
        needed = set[str]()
        if choice is not None:
            needed.add(_OFFSET)
        if self._unpacks:
            needed |= {BODY, ENCODING}
        needed -= set(decoded.names)
        return RowSchema((*decoded.columns, *KNOWN_ROWS.only(needed).columns))

    @property
    def _unpacks(self) -> bool:
        return self.unpacks_bodies and not {BODY, ENCODING}.isdisjoint(self.layout.decoded.names)

    def _rows(
        self, reader: SplitReader, piece: LogPiece, batch: LogBatch, choice: OffsetChoice | None
    ) -> Iterator[pa.RecordBatch]:
        rows = batch.rows if choice is None else choice.rows(batch.rows)
        if self.on_damage is OnDamage.PERMISSIVE:
            topic = replaced_text(piece.log.queue)
            for damage in batch.damaged:
                text = damage_document(reader, piece.log, damage, CORRUPT_BYTES_MAX)
                yield self.layout.corrupt_row(topic, damage.start_offset, text)
        if rows.num_rows:
            yield from map(self.layout.rows, decompressed(rows) if self._unpacks else [rows])


def _failed(piece: LogPiece, reason: str) -> ReadFailedError:
    split = piece.split
    segment = SegmentName(split.segment_base_offset, split.generation).file_name
    return ReadFailedError(
        f"queue {piece.log.queue!r} of virtual host {piece.log.vhost!r}, segment {segment}, "
        f"offsets [{split.start_offset}, {split.end_offset}) from position "
        f"{split.start_position} on: {reason}"
    )


def _warn(piece: LogPiece, skipped: list[DamagedRange]) -> None:
    lost = sum(each.end_offset - each.start_offset for each in skipped)
    places = "; ".join(str(each) for each in skipped[:_SHOWN_MAX])
    more = "; ..." if len(skipped) > _SHOWN_MAX else ""
    logger.warning(
        "skipped damage queue=%r places=%d offsets=%d: %s%s",
        piece.log.queue,
        len(skipped),
        lost,
        places,
        more,
    )
