"""Filters as bounds: never narrower than what the filters leave."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from appendlog.spark.schema.columns import ROWS
from appendlog.spark.source.batch_plan import batch_options
from appendlog.spark.source.filters import bounds_of_filters
from appendlog.spark.source.log_partition import LogPartition
from appendlog.spark.source.pushing_reader import PushingBatchReader
from appendlog.spark.source.row_bounds import RowBounds
from tests.spark.builders import START_NS, plain_message, plain_messages, store_queue
from tests.spark.damage import flip_texts
from tests.spark.source_reading import batches_of, partitions_of, struct_of

OFFSET, TIMESTAMP, TOPIC = ("offset",), ("timestamp",), ("topic",)
MOMENT = datetime(2023, 11, 14, 22, 13, 20, 5, UTC)
MOMENT_NS = 1_700_000_000_000_005_000


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([], RowBounds()),
        ([GreaterThanOrEqual(OFFSET, 5), LessThan(OFFSET, 9)], RowBounds((5, 9))),
        ([GreaterThan(OFFSET, 5), LessThanOrEqual(OFFSET, 9)], RowBounds((6, 10))),
        ([EqualTo(OFFSET, 5)], RowBounds((5, 6))),
        ([EqualNullSafe(OFFSET, 5), IsNotNull(OFFSET)], RowBounds((5, 6))),
        ([In(OFFSET, (5, 9, 7))], RowBounds((5, 10))),
        ([In(OFFSET, (5, None))], RowBounds()),
        ([GreaterThan(OFFSET, 5), GreaterThan(OFFSET, 3), LessThan(OFFSET, 2)], RowBounds((6, 2))),
        ([EqualTo(OFFSET, True), EqualTo(OFFSET, 1.5), EqualNullSafe(OFFSET, None)], RowBounds()),
        ([Not(EqualTo(OFFSET, 5))], RowBounds()),
        ([EqualTo(("headers", "offset"), 5), EqualTo(("priority",), 5)], RowBounds()),
        ([GreaterThanOrEqual(TIMESTAMP, MOMENT)], RowBounds(times_ns=(MOMENT_NS, None))),
        ([GreaterThan(TIMESTAMP, MOMENT)], RowBounds(times_ns=(MOMENT_NS + 1000, None))),
        ([LessThan(TIMESTAMP, MOMENT)], RowBounds(times_ns=(None, MOMENT_NS))),
        ([LessThanOrEqual(TIMESTAMP, MOMENT)], RowBounds(times_ns=(None, MOMENT_NS + 1000))),
        (
            [EqualTo(TIMESTAMP, MOMENT.astimezone(timezone(timedelta(hours=-5))))],
            RowBounds(times_ns=(MOMENT_NS, MOMENT_NS + 1000)),
        ),
        ([GreaterThan(TIMESTAMP, MOMENT.replace(tzinfo=None))], RowBounds()),
        ([EqualTo(TOPIC, "a")], RowBounds(topics=frozenset("a"))),
        ([In(TOPIC, ("a", "b")), EqualTo(TOPIC, "b")], RowBounds(topics=frozenset("b"))),
        ([EqualTo(TOPIC, "a"), EqualTo(TOPIC, "b")], RowBounds(topics=frozenset())),
        ([StringStartsWith(TOPIC, "a"), Not(EqualTo(TOPIC, "b"))], RowBounds()),
    ],
)
def test_filters_bound_offsets_times_and_queues(filters: list[Filter], bounds: RowBounds) -> None:
    assert bounds_of_filters(filters) == bounds


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give two queues of 300 messages, 50 to a chunk, a millisecond and more apart."""
    path = tmp_path_factory.mktemp("filters")
    for name in ("orders", "invoices"):
        queue = store_queue(path, name, segment_bytes=10_000)
        queue.append(plain_messages(300))
        queue.close()
    return path


def pushing_reader(storage: Path, **options: str) -> PushingBatchReader:
    given = {"path": str(storage), "subscribe": "orders,invoices", "minPartitions": "9", **options}
    parsed = batch_options(given)
    return PushingBatchReader(parsed, parsed.shared.layout(struct_of(parsed.shared.ddl)))


def planned_offsets(reader: PushingBatchReader) -> int:
    return sum(
        piece.split.end_offset - piece.split.start_offset
        for partition in partitions_of(reader)
        if isinstance(partition, LogPartition)
        for piece in partition.value
    )


def time_of(offset: int) -> int:
    return START_NS + offset // 50 * 50 * 1_000_123


@given(
    low=st.integers(-5, 310),
    high=st.integers(-5, 310),
    low_us=st.integers(-5, 400_000),
    is_strict=st.booleans(),
    topic=st.sampled_from([None, "orders", "other"]),
)
def test_rows_that_filters_leave_are_all_read(
    storage: Path, low: int, high: int, low_us: int, is_strict: bool, topic: str | None
) -> None:
    moment = datetime.fromtimestamp(START_NS // 10**9, UTC) + timedelta(microseconds=low_us)
    filters: list[Filter] = [
        GreaterThanOrEqual(OFFSET, low),
        LessThan(OFFSET, high),
        (GreaterThan if is_strict else GreaterThanOrEqual)(TIMESTAMP, moment),
    ]
    if topic is not None:
        filters.append(EqualTo(TOPIC, topic))
    reader = pushing_reader(storage)
    given_back = list(reader.pushFilters(filters))
    assert [id(each) for each in given_back] == [id(each) for each in filters]
    found = [
        (topic, offset)
        for batch in batches_of(reader)
        for topic, offset in zip(
            batch.column("topic").to_pylist(), batch.column("offset").to_pylist(), strict=True
        )
    ]
    start_us = START_NS // 1000 + low_us + is_strict
    wanted = {
        (name, offset)
        for name in ("orders", "invoices")
        for offset in range(max(low, 0), min(high, 300))
        if time_of(offset) // 1000 >= start_us and topic in (None, name)
    }
    assert wanted == set(found)
    assert len(found) == len(set(found)) == planned_offsets(reader)


def test_without_filters_everything_is_read(storage: Path) -> None:
    reader = pushing_reader(storage)
    assert planned_offsets(reader) == 600
    reader.pushFilters([EqualTo(TOPIC, "invoices"), GreaterThan(OFFSET, 249)])
    assert planned_offsets(reader) == 50


def test_of_the_rows_of_damage_no_filter_moves_the_offset(tmp_path: Path) -> None:
    queue = store_queue(tmp_path)
    queue.append(plain_messages(150))
    queue.close()
    (segment,) = queue.segments()
    flip_texts(segment, plain_message(70))
    reader = pushing_reader(tmp_path, subscribe="orders", mode="PERMISSIVE")
    reader.pushFilters([GreaterThan(OFFSET, 60)])
    offsets = [row for batch in batches_of(reader) for row in batch.column("offset").to_pylist()]
    assert [offset for offset in offsets if offset > 60] == list(range(100, 150))


def test_what_retention_took_is_no_loss_where_filters_do_not_ask_for_it(tmp_path: Path) -> None:
    queue = store_queue(tmp_path, segment_bytes=10_000)
    queue.append(plain_messages(300))
    queue.close()
    queue.segments()[0].unlink()
    first = int(queue.segments()[0].stem)
    later: tuple[Filter, ...] = (
        GreaterThanOrEqual(OFFSET, first),
        GreaterThan(TIMESTAMP, datetime.fromtimestamp(time_of(first) / 1e9, UTC)),
    )
    for each in later:
        reader = pushing_reader(tmp_path, subscribe="orders", startingOffsets="0")
        reader.pushFilters([each])
        assert 0 < planned_offsets(reader) <= 300 - first


def test_the_columns_of_filters_are_columns_of_rows() -> None:
    assert {OFFSET[0], TIMESTAMP[0], TOPIC[0]} <= set(ROWS.names)
