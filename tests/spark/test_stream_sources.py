"""Streams of what is not a healthy log on this machine, and by Spark that is too old."""

import sys
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from appendlog.spark.errors import ReadFailedError, SparkFailedError
from appendlog.spark.objects.store_options import NO_OPTIONS
from appendlog.spark.source.data_source import stream_reader
from tests.spark.builders import StoredQueue, plain_message, plain_messages, store_queue
from tests.spark.damage import flip_texts
from tests.spark.object_stores import new_memory, upload
from tests.spark.stream_engine import TOPIC_AND_OFFSET, Query, reader_of

WITH_DAMAGE = StructType(
    [
        StructField("topic", StringType()),
        StructField("offset", LongType()),
        StructField("_corrupt_record", StringType()),
    ]
)


@pytest.fixture
def damaged(tmp_path: Path) -> StoredQueue:
    """Give a queue of 300 messages of which those from 100 to 149 are damaged."""
    queue = store_queue(tmp_path)
    queue.append(plain_messages(300))
    queue.close()
    (segment,) = queue.segments()
    flip_texts(segment, plain_message(120))
    return queue


def read_in_batches_of(limit: int, path: Path, mode: str) -> Query:
    query = Query(
        lambda: reader_of(path, subscribe="orders", mode=mode, maxOffsetsPerTrigger=str(limit))
    )
    query.run_available_now()
    return query


@pytest.mark.parametrize("limit", [7, 110, 1000])
def test_damage_costs_its_messages_however_batches_cut_it(damaged: StoredQueue, limit: int) -> None:
    query = read_in_batches_of(limit, damaged.storage_path, "DROPMALFORMED")
    assert [offset for _, offset in query.rows] == [*range(100), *range(150, 300)]
    with pytest.raises(ReadFailedError, match="offset 100"):
        read_in_batches_of(limit, damaged.storage_path, "FAILFAST")


@pytest.mark.parametrize("limit", ["60", "125", "1000"])
def test_damage_is_a_row_however_batches_cut_it(damaged: StoredQueue, limit: str) -> None:
    options = {"path": str(damaged.storage_path), "startingOffsets": "earliest"}
    reader = stream_reader(
        {**options, "subscribe": "orders", "mode": "PERMISSIVE", "maxOffsetsPerTrigger": limit},
        WITH_DAMAGE,
    )
    start, rows = reader.initialOffset(), []
    while True:
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        if end == start:
            break
        for partition in reader.partitions(start, end):
            rows += [row for batch in reader.read(partition) for row in batch.to_pylist()]
        start = end
    reader.stop()
    whole = [row["offset"] for row in rows if row["_corrupt_record"] is None]
    assert whole == [*range(100), *range(150, 300)]
    assert len(rows) > len(whole)


def test_a_copy_in_a_store_is_streamed_without_leases(tmp_path: Path) -> None:
    queue = store_queue(tmp_path, segment_bytes=4096)
    queue.append(plain_messages(200))
    queue.close()
    url = new_memory()
    upload(tmp_path, url, NO_OPTIONS)
    options = {"path": url, "subscribe": "orders", "startingOffsets": "earliest"}
    query = Query(lambda: stream_reader({**options, "maxBytesPerTrigger": "4k"}, TOPIC_AND_OFFSET))
    assert len(query.run_available_now()) > 2
    assert [offset for _, offset in query.rows] == list(range(200))
    assert query.run_available_now() == []


def test_an_older_spark_is_told_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in PySpark 4.1, which has no limits for streams written in Python.
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    monkeypatch.delitem(sys.modules, "appendlog.spark.source.stream_reader")
    monkeypatch.setattr("pyspark.__version__", "4.1.1")
    with pytest.raises(SparkFailedError, match=r"need PySpark 4\.2 or newer, this is 4\.1\.1"):
        stream_reader({"path": "x", "subscribe": "q"}, TOPIC_AND_OFFSET)
