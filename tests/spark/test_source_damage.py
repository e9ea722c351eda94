"""Damage in a log, in Spark's words: FAILFAST, PERMISSIVE, DROPMALFORMED."""

import base64
import json
import logging
from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from appendlog.spark.errors import ColumnError, ReadFailedError
from appendlog.spark.source import partition_reader
from tests.spark.builders import StoredQueue, plain_message, plain_messages, store_queue
from tests.spark.damage import flip_texts
from tests.spark.plain_reader import Row
from tests.spark.source_reading import read_offsets, read_rows

KEPT = [*range(100), *range(150, 250), *range(300, 400)]


@pytest.fixture
def queue(tmp_path: Path) -> StoredQueue:
    """Give a queue of 400 messages of which two chunks, of 50 each, are damaged."""
    queue = store_queue(tmp_path)
    queue.append(plain_messages(400))
    queue.close()
    (segment,) = queue.segments()
    flip_texts(segment, plain_message(120), plain_message(270))
    return queue


def corrupt(rows: list[Row], column: str = "_corrupt_record") -> list[Row]:
    return [row for row in rows if row[column] is not None]


def test_damage_is_an_error_unless_something_else_is_asked_for(queue: StoredQueue) -> None:
    with pytest.raises(ReadFailedError, match=r"damaged at position \d+, offset 100"):
        read_rows(queue.storage_path)
    assert read_offsets(queue.storage_path, endingOffsets="100") == KEPT[:100]


def test_dropmalformed_goes_on_behind_damage_and_says_so(
    queue: StoredQueue, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert read_offsets(queue.storage_path, mode="DROPMALFORMED") == KEPT
    assert "skipped damage queue='orders' places=2 offsets=100: " in caplog.text
    assert "offsets [100, 150): a chunk whose checksum is wrong" in caplog.text


@pytest.mark.parametrize("partitions", ["1", "30"])
def test_permissive_has_a_row_for_each_damaged_range_of_bytes(
    queue: StoredQueue, partitions: str
) -> None:
    rows = read_rows(queue.storage_path, mode="PERMISSIVE", minPartitions=partitions)
    assert [row["offset"] for row in rows if row["_corrupt_record"] is None] == KEPT
    first, second = corrupt(rows)
    content = queue.segments()[0].read_bytes()
    for row, offset in ((first, 100), (second, 250)):
        told = json.loads(row.pop("_corrupt_record"))
        assert (row.pop("topic"), row.pop("offset")) == ("orders", offset)
        assert set(row.values()) == {None}
        damaged = base64.b64decode(told.pop("bytes"))
        assert damaged == content[told.pop("start_position") : told.pop("end_position")]
        assert plain_message(offset) in damaged
        assert told == {
            "vhost": "/",
            "queue": "orders",
            "incarnation": str(queue.location.incarnation),
            "segment": queue.segments()[0].name,
            "start_offset": offset,
            "end_offset": offset + 50,
            "reason": "a chunk whose checksum is wrong",
        }


def test_the_bytes_that_are_shown_are_bounded(
    queue: StoredQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "CORRUPT_BYTES_MAX", 10)
    first, _ = corrupt(read_rows(queue.storage_path, mode="PERMISSIVE"))
    told = json.loads(first["_corrupt_record"])
    assert (
        len(base64.b64decode(told["bytes"])) == 10 < told["end_position"] - told["start_position"]
    )


def test_the_column_for_damage_is_where_and_what_the_user_says(queue: StoredQueue) -> None:
    schema = StructType([StructField("bad", StringType()), StructField("offset", LongType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "bad"}
    rows = read_rows(queue.storage_path, schema, **options)
    assert [json.loads(row["bad"])["start_offset"] for row in corrupt(rows, "bad")] == [100, 250]
    assert [row["offset"] for row in rows if row["bad"] is None] == KEPT
    alone = read_rows(queue.storage_path, StructType(schema.fields[:1]), **options)
    assert [row["bad"] for row in alone] == [row["bad"] for row in rows]
    columns = read_rows(queue.storage_path, columns="offset", **options)
    assert [list(row) for row in columns[:1]] == [["offset", "bad"]]


def test_a_schema_without_the_column_has_the_rows_all_the_same(queue: StoredQueue) -> None:
    """As Spark's own sources have it: how many rows there are does not depend on the columns."""
    schema = StructType([StructField("offset", LongType())])
    offsets = read_offsets(queue.storage_path, schema, mode="PERMISSIVE")
    assert sorted(offsets) == sorted([*KEPT, 100, 250])


def test_without_damage_the_column_is_null(queue: StoredQueue) -> None:
    rows = read_rows(queue.storage_path, mode="PERMISSIVE", endingOffsets="100")
    assert {row["_corrupt_record"] for row in rows} == {None}
    schema = StructType(
        [StructField("offset", LongType()), StructField("_corrupt_record", StringType())]
    )
    rows = read_rows(queue.storage_path, schema, mode="DROPMALFORMED")
    assert [row["offset"] for row in rows] == KEPT
    assert {row["_corrupt_record"] for row in rows} == {None}


def test_the_column_for_damage_is_text(queue: StoredQueue) -> None:
    for field in (
        StructField("_corrupt_record", IntegerType()),
        StructField("_corrupt_record", StringType(), False),
    ):
        with pytest.raises(ColumnError, match="describes damage: it must be a STRING"):
            read_rows(queue.storage_path, StructType([field]), mode="PERMISSIVE")


def test_a_time_is_found_past_damage(queue: StoredQueue) -> None:
    moment = {"startingTimestamp": "2023-11-14T22:13:20.270Z"}
    assert read_offsets(queue.storage_path, mode="DROPMALFORMED", **moment) == KEPT[200:]
