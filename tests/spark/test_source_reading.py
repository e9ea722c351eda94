"""Reading logs through the data source: what Spark gets, whatever it asks for."""

import logging
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from appendlog.spark.decoding.log_batches import BATCH_RECORDS
from appendlog.spark.errors import (
    BoundError,
    ColumnError,
    QueueNotFoundError,
    RangeError,
    ReadFailedError,
    ReadLossError,
    StorageNotFoundError,
)
from appendlog.spark.planning.queues import QueueLog
from appendlog.spark.schema.columns import KNOWN_ROWS, ROWS
from appendlog.spark.schema.forms import kafka_rows
from appendlog.spark.source.log_partition import LogPartition
from tests.spark.builders import (
    StoredQueue,
    all_kinds_of_messages,
    plain_message,
    plain_messages,
    store_queue,
)
from tests.spark.damage import flip_middle
from tests.spark.plain_reader import Row
from tests.spark.plain_reader import expected_rows as all_of_the_rows
from tests.spark.source_reading import (
    batches_of,
    partitions_of,
    read_offsets,
    read_rows,
    reader_of,
    struct_of,
)

OFFSETS = StructType([StructField("offset", LongType())])


def expected_rows(log: QueueLog) -> list[Row]:
    """Return the columns that rows have unless others were asked for."""
    return [{name: row[name] for name in ROWS.names} for row in all_of_the_rows(log)]


@pytest.fixture
def queue(tmp_path: Path) -> StoredQueue:
    """Give a queue of all kinds of messages, in several segments."""
    queue = store_queue(tmp_path, segment_bytes=10_000)
    queue.append(all_kinds_of_messages())
    queue.append(plain_messages(300))
    queue.skip(7)
    queue.append(plain_messages(50))
    queue.close()
    assert len(queue.segments()) > 2
    return queue


def test_rows_are_those_of_the_log(queue: StoredQueue) -> None:
    rows = read_rows(queue.storage_path)
    assert rows == expected_rows(queue.location)


@pytest.mark.parametrize(
    "options", [{"minPartitions": "20"}, {"maxBytesPerPartition": "700"}, {"minPartitions": "2"}]
)
def test_partitions_are_as_many_as_asked_for_and_tile_the_log(
    queue: StoredQueue, options: dict[str, str]
) -> None:
    partitions = partitions_of(reader_of(queue.storage_path, **options))
    assert len(partitions) > 1
    assert read_rows(queue.storage_path, **options) == expected_rows(queue.location)


def test_batches_are_of_exactly_the_schema_that_spark_expects(queue: StoredQueue) -> None:
    """Spark looks at the first batch only; another one would crash the JVM."""
    schema = struct_of(KNOWN_ROWS.ddl)
    expected = to_arrow_schema(schema, timezone="UTC")
    batches = batches_of(reader_of(queue.storage_path, schema, minPartitions="9"), expected)
    assert sum(batch.num_rows for batch in batches) == 386


def test_a_users_schema_chooses_columns_and_their_order(queue: StoredQueue) -> None:
    everything = read_rows(queue.storage_path)
    for names in (
        ["offset"],
        ["value", "offset", "key"],
        ["headers", "priority"],
        ROWS.names[::-1],
    ):
        schema = StructType([struct_of(ROWS.ddl)[name] for name in names])
        rows = read_rows(queue.storage_path, schema)
        assert rows == [{name: row[name] for name in names} for row in everything]
        assert list(rows[0]) == names
        assert read_rows(queue.storage_path, columns=",".join(names)) == rows


def test_columns_that_a_row_does_not_have_unless_asked_for(queue: StoredQueue) -> None:
    rows = read_rows(queue.storage_path, columns="timestamp_ns,timestamp,envelope,value")
    assert all(row["timestamp_ns"] // 1000 == row["timestamp"] for row in rows)
    messages = [*all_kinds_of_messages(), *plain_messages(300), *plain_messages(50)]
    assert [row["envelope"] + row["value"] for row in rows] == messages


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("offset", IntegerType()), "column offset is BIGINT, not INT"),
        (StructField("timestamp", TimestampNTZType()), "is TIMESTAMP, not TIMESTAMP_NTZ"),
        (StructField("Offset", LongType()), "no column 'Offset': did you mean offset?"),
        (StructField("body", LongType()), "there is no column 'body'"),
        (StructField("message_id", StringType(), False), "message_id can be null"),
        (
            StructField("headers", MapType(StringType(), StringType(), False)),
            "whose parts can be null, not MAP<STRING,STRING>",
        ),
    ],
)
def test_a_schema_that_rows_do_not_have_is_refused(
    queue: StoredQueue, field: StructField, message: str
) -> None:
    with pytest.raises(ColumnError, match=message):
        reader_of(queue.storage_path, StructType([field]))


def test_the_form_of_a_column_follows_from_its_type(queue: StoredQueue) -> None:
    """A schema says all there is to say: no option has to say it again."""
    kafka = struct_of(kafka_rows(include_headers=True).ddl)
    rows = read_rows(queue.storage_path, kafka)
    assert rows == read_rows(queue.storage_path, kafkaSchema="true", includeHeaders="true")
    expected = all_of_the_rows(queue.location)
    assert [row["key"] for row in rows[1:]] == [row["key"].encode() for row in expected[1:]]
    (texts,) = {
        tuple(entry["value"] for entry in row["headers"] if entry["key"] == "text")
        for row in rows
        if row["headers"]
    }
    assert texts == ("\u00e9t\u00e9".encode(),)
    forms = StructType([StructField("headers", StringType())])
    rows = read_rows(queue.storage_path, forms)
    assert rows == read_rows(queue.storage_path, headersAs="json", columns="headers")
    assert '"yes":true' in rows[0]["headers"].replace(" ", "")


def test_a_column_twice_or_none_is_refused(queue: StoredQueue) -> None:
    with pytest.raises(ColumnError, match="the schema has no column"):
        reader_of(queue.storage_path, StructType([]))
    with pytest.raises(ColumnError, match="named twice"):
        reader_of(queue.storage_path, StructType([*OFFSETS.fields, *OFFSETS.fields]))


def test_columns_that_are_never_null_may_be_declared_so(queue: StoredQueue) -> None:
    schema = StructType([StructField("offset", LongType(), False), ROWS_STRUCT["key"]])
    assert len(read_rows(queue.storage_path, schema)) == 386
    strict = StructType([StructField("timestamp", ROWS_STRUCT["timestamp"].dataType, False)])
    with pytest.raises(ColumnError, match="timestamp can be null"):
        reader_of(queue.storage_path, strict, mode="PERMISSIVE")


ROWS_STRUCT = struct_of(ROWS.ddl)


def test_a_range_without_rows_is_read_without_an_error(queue: StoredQueue) -> None:
    """Spark then asks for a partition of its own making."""
    store_queue(queue.storage_path, "empty").close()
    for options in (
        {"subscribe": "empty"},
        {"startingOffsets": "100", "endingOffsets": "100"},
        {"startingOffsets": "393"},
    ):
        reader = reader_of(queue.storage_path, **options)
        assert reader.partitions() == []
        assert type(partitions_of(reader)[0]) is InputPartition
        assert batches_of(reader) == []


def test_the_end_is_fixed_when_a_query_is_planned(tmp_path: Path) -> None:
    queue = store_queue(tmp_path)
    queue.append(plain_messages(60))
    queue.append(plain_messages(10), sync=False)
    reader = reader_of(tmp_path)
    partitions = reader.partitions()
    queue.append(plain_messages(50))
    read = [batch.num_rows for each in partitions for batch in reader.read(each)]
    assert sum(read) == 60
    assert len(read_rows(tmp_path)) == 120
    queue.close()


def test_several_queues_are_read_as_one(tmp_path: Path) -> None:
    for name in ("orders-1", "orders-2", "other"):
        queue = store_queue(tmp_path, name)
        queue.append(plain_messages(30))
        queue.close()
    rows = read_rows(tmp_path, subscribePattern="orders-.")
    assert [row["topic"] for row in rows] == ["orders-1"] * 30 + ["orders-2"] * 30
    # Small ones together: a task for each would cost more than reading them.
    assert len(partitions_of(reader_of(tmp_path, subscribePattern="orders-."))) == 1
    rows = read_rows(
        tmp_path,
        subscribe="orders-1,other",
        startingOffsets='{"orders-1": {"0": 29}, "other": {"0": -2}}',
        endingOffsets='{"orders-1": {"0": -1}, "other": {"0": 2}}',
    )
    assert [(row["topic"], row["offset"]) for row in rows] == [
        ("orders-1", 29),
        ("other", 0),
        ("other", 1),
    ]
    with pytest.raises(BoundError, match="no offset for queue 'other'"):
        reader_of(
            tmp_path, subscribe="orders-1,other", startingOffsets='{"orders-1": {"0": 1}}'
        ).partitions()


def test_offsets_and_times_bound_what_is_read(queue: StoredQueue) -> None:
    rows = expected_rows(queue.location)
    assert read_offsets(queue.storage_path, startingOffsets="40", endingOffsets="90") == list(
        range(40, 90)
    )
    middle = rows[200]["timestamp"]
    milliseconds = str(middle // 1000 + 1)
    later = [row["offset"] for row in rows if row["timestamp"] >= int(milliseconds) * 1000]
    assert read_offsets(queue.storage_path, startingTimestamp=milliseconds) == later
    earlier = read_offsets(queue.storage_path, endingTimestamp=milliseconds)
    assert [*earlier, *later] == [row["offset"] for row in rows]
    with pytest.raises(RangeError, match="has no message from"):
        read_rows(queue.storage_path, startingTimestamp="2100-01-01")
    late = {"startingTimestamp": "2100-01-01", "startingOffsetsByTimestampStrategy": "latest"}
    assert read_rows(queue.storage_path, **late) == []


def test_what_is_not_there_is_named_when_the_query_is_planned(tmp_path: Path) -> None:
    with pytest.raises(StorageNotFoundError, match="no such data directory"):
        reader_of(tmp_path / "none").partitions()
    store_queue(tmp_path, "orders-eu").close()
    with pytest.raises(QueueNotFoundError, match="nearest of 1: orders-eu"):
        reader_of(tmp_path).partitions()


def test_batches_are_bounded_in_rows_and_bytes(tmp_path: Path) -> None:
    queue = store_queue(tmp_path, segment_bytes=200 << 20)
    queue.append(plain_messages(20_000), step=1000)
    queue.append(plain_messages(30, body_bytes=2 << 20), step=1)
    queue.close()
    batches = batches_of(reader_of(tmp_path))
    assert max(batch.num_rows for batch in batches) <= BATCH_RECORDS
    assert max(batch.nbytes for batch in batches) <= 16 << 20
    assert sum(batch.num_rows for batch in batches) == 20_030


def test_what_retention_took_before_the_query_is_a_loss(
    queue: StoredQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue.segments()[0].unlink()
    first = int(queue.segments()[0].stem)
    with pytest.raises(ReadLossError, match=rf"offsets \[5, {first}\) of queue 'orders'"):
        reader_of(queue.storage_path, startingOffsets="5").partitions()
    assert read_offsets(queue.storage_path)[0] == first
    with caplog.at_level(logging.WARNING):
        offsets = read_offsets(queue.storage_path, startingOffsets="5", failOnDataLoss="false")
    assert offsets[0] == first
    assert f"offsets [5, {first}) of queue 'orders' are not in the log any more" in caplog.text


def test_what_retention_takes_before_a_task_is_a_loss(
    queue: StoredQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """Reads are lazy: days may pass between planning a query and its tasks."""
    second, third = (int(path.stem) for path in queue.segments()[1:3])
    strict = reader_of(queue.storage_path)
    lenient = reader_of(queue.storage_path, failOnDataLoss="false")
    (partition,) = strict.partitions()
    queue.segments()[1].unlink()
    with pytest.raises(ReadLossError) as caught:
        list(strict.read(partition))
    assert (caught.value.start, caught.value.end) == (second, third)
    with caplog.at_level(logging.WARNING):
        batches = list(lenient.read(partition))
    offsets = [row for batch in batches for row in batch.column("offset").to_pylist()]
    assert offsets == [row["offset"] for row in expected_rows_of(queue, second, third)]
    assert f"offsets [{second}, {third}) of queue 'orders'" in caplog.text


def expected_rows_of(queue: StoredQueue, second: int, third: int) -> list[dict[str, int]]:
    every = [*range(336), *range(343, 393)]
    return [{"offset": offset} for offset in every if not second <= offset < third]


def test_a_failing_task_names_queue_segment_offset_and_position(queue: StoredQueue) -> None:
    segment = queue.segments()[1]
    flip_middle(segment)
    reader = reader_of(queue.storage_path, minPartitions="5")
    with pytest.raises(
        ReadFailedError,
        match=rf"queue 'orders' of virtual host '/', segment {segment.name}, offsets \[\d+, \d+\) "
        rf"from position \d+ on: .*{segment.name}: damaged at position \d+, offset \d+: ",
    ):
        batches_of(reader)


def test_readers_and_partitions_are_plain_data(queue: StoredQueue) -> None:
    reader = reader_of(queue.storage_path)
    list(reader.read(reader.partitions()[0]))
    assert pickle.loads(pickle.dumps(reader))._options == reader._options
    (partition,) = reader.partitions()
    assert isinstance(partition, LogPartition)
    assert pickle.loads(pickle.dumps(partition)).value == partition.value


def test_a_reader_takes_no_filters_unless_spark_plans_with_them(queue: StoredQueue) -> None:
    """Spark refuses a reader that overrides this while push-down is off, as it is by default."""
    reader = reader_of(queue.storage_path)
    assert type(reader).pushFilters is DataSourceReader.pushFilters


def test_stopping_early_leaves_no_file_open(queue: StoredQueue) -> None:
    reader = reader_of(queue.storage_path)
    rows = reader.read(reader.partitions()[0])
    assert isinstance(next(rows), pa.RecordBatch)
    rows.close()  # type: ignore[attr-defined]  # a generator, as Spark's own closing expects


def test_a_single_message_is_found_by_its_offset(queue: StoredQueue) -> None:
    (row,) = read_rows(queue.storage_path, startingOffsets="40", endingOffsets="41")
    assert row["value"] == plain_message(4)[-40:]
