"""Joins batches of a log to groups of rows, with an account of every offset.

A group becomes a row group of a Parquet file: files grow by groups and end after one. The same log
and range always make the same groups.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from appendlog.spark.decoding.log_batches import LogBatch
from appendlog.spark.planning.ranges import Range, offsets_in, subtract_ranges
from appendlog.spark.planning.settlement import OffsetChoice

GROUP_ROWS: Final = 131_072
GROUP_BYTES: Final = 32 << 20
GAPS_MAX: Final = 100
"""Most gaps that are listed; more are only counted."""


@dataclass(slots=True)
class OffsetAccount:
    """Account of the offsets `[start_offset, end_offset)`: each is in one of four counts.

    Attributes:
        start_offset: First offset.
        end_offset: End of the offsets, exclusive.
        rows: Offsets that are rows.
        missing: Offsets that the log does not have.
        corrupt: Offsets in damaged parts of the log.
        excluded: Offsets that the user did not ask for, whether the log has them or not.
        undecodable: Rows whose headers or properties are malformed.
        gaps: First `GAPS_MAX` ranges of missing offsets.
    """

    start_offset: int
    end_offset: int
    rows: int = 0
    missing: int = 0
    corrupt: int = 0
    excluded: int = 0
    undecodable: int = 0
    gaps: list[Range] = field(default_factory=list)

    def add(self, other: "OffsetAccount") -> None:
        """Add the account of later offsets; the user did not ask for offsets in between."""
        assert other.start_offset >= self.end_offset
        self.excluded += other.excluded + other.start_offset - self.end_offset
        self.end_offset = other.end_offset
        self.rows += other.rows
        self.missing += other.missing
        self.corrupt += other.corrupt
        self.undecodable += other.undecodable
        for start, end in other.gaps:
            if self.gaps and self.gaps[-1][1] == start:
                self.gaps[-1] = (self.gaps[-1][0], end)
            elif len(self.gaps) < GAPS_MAX:
                self.gaps.append((start, end))

    @property
    def is_complete(self) -> bool:
        """Whether every offset is accounted for."""
        known = self.rows + self.missing + self.corrupt + self.excluded
        return known == self.end_offset - self.start_offset


@dataclass(slots=True)
class RowGroup:
    """Rows, and the account of their offsets.

    Attributes:
        account: Account of the group; the last group may have no rows.
        rows: Rows in the order of offsets.
    """

    account: OffsetAccount
    rows: pa.Table


def join_batches(
    batches: Iterable[LogBatch], schema: pa.Schema, choice: OffsetChoice | None = None
) -> Iterator[RowGroup]:
    """Return groups of at least `GROUP_ROWS` rows or `GROUP_BYTES`; only the last is smaller.

    Memory: one group.

    Args:
        batches: Batches in order; each begins where the last one ends, or later if the user did
            not ask for the offsets between.
        schema: Schema of their rows.
        choice: Offsets that become rows; all by default.
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    account: OffsetAccount | None = None
    for batch in batches:
        rows = batch.rows if choice is None else choice.rows(batch.rows)
        part = _account(batch, rows.num_rows, choice)
        if account is None:
            account = part
        else:
            account.add(part)
        if rows.num_rows:
            waiting.append(rows)
            size += rows.nbytes
        if account.rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield RowGroup(account, pa.Table.from_batches(waiting, schema))
            waiting = []
            size = 0
            account = None
    if account is not None:
        yield RowGroup(account, pa.Table.from_batches(waiting, schema))


def _account(batch: LogBatch, rows: int, choice: OffsetChoice | None) -> OffsetAccount:
    start, end = batch.start_offset, batch.end_offset
    lost: Sequence[Range] = batch.lost
    gaps: Sequence[Range] = batch.missing
    if lost:
        gaps = subtract_ranges(gaps, lost)
    excluded = 0
    if choice is not None:
        lost, gaps = choice.among(lost), choice.among(gaps)
        excluded = end - start - choice.count(start, end)
    account = OffsetAccount(
        start_offset=start,
        end_offset=end,
        rows=rows,
        missing=offsets_in(gaps),
        corrupt=offsets_in(lost),
        excluded=excluded,
        undecodable=batch.undecodable,
        gaps=list(gaps[:GAPS_MAX]),
    )
    assert account.is_complete, account
    return account
