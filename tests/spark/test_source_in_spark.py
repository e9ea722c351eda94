"""What only Spark itself can tell about the data source; the rest is tested without a JVM."""

import time
from collections.abc import Iterator
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import pyspark_amqplog
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import encode_message
from appendlog.spark.decoding.found_fields import TIMES_END_SECONDS
from tests.spark.builders import StoredQueue, all_kinds_of_messages, plain_messages, store_queue
from tests.spark.damage import flip_middle
from tests.spark.plain_reader import expected_rows, table_rows

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> StoredQueue:
    """Give a queue in several segments, and an empty one."""
    path = tmp_path_factory.mktemp("source")
    store_queue(path, "empty").close()
    queue = store_queue(path, segment_bytes=10_000)
    queue.append(all_kinds_of_messages())
    queue.append(plain_messages(300))
    queue.close()
    return queue


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[None]:
    pyspark_amqplog.enable(spark)
    yield
    spark.conf.unset(pyspark_amqplog.PUSH_DOWN)


def load(spark: SparkSession, queue: StoredQueue, **options: str) -> DataFrame:
    given = {"subscribe": "orders", "minPartitions": "6", **options}
    return spark.read.format("amqplog").options(**given).load(str(queue.storage_path))


def test_the_format_is_found_without_registering_and_gives_the_rows(
    spark: SparkSession, queue: StoredQueue
) -> None:
    table = load(spark, queue).orderBy("offset").toArrow()
    names = table.schema.names
    assert table_rows(table) == [
        {name: row[name] for name in names} for row in expected_rows(queue.location)
    ]


def test_the_directories_of_several_brokers_are_one_frame(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As docs/availability.md says: offsets are each broker's own."""
    counts = {"east": 30, "west": 20}
    for name, count in counts.items():
        stored = store_queue(tmp_path / name)
        stored.append(plain_messages(count))
        stored.close()
    frames = [
        spark.read.format("amqplog")
        .option("subscribe", "orders")
        .load(str(tmp_path / name))
        .withColumn("broker", f.lit(name))
        for name in counts
    ]
    orders = reduce(DataFrame.unionByName, frames)
    found = orders.groupBy("broker").agg(f.count_distinct("offset")).collect()
    assert {row[0]: row[1] for row in found} == counts


def test_a_schema_prunes_and_counts(spark: SparkSession, queue: StoredQueue) -> None:
    reader = spark.read.format("amqplog").schema("`offset` BIGINT, headers MAP<STRING,STRING>")
    frame = reader.option("subscribe", "orders").load(str(queue.storage_path))
    assert frame.columns == ["offset", "headers"]
    assert frame.where("headers['yes'] = 'true'").count() == 4
    assert frame.select("offset").distinct().count() == 336


def test_rows_can_be_kafkas(spark: SparkSession, queue: StoredQueue) -> None:
    frame = load(spark, queue, kafkaSchema="true", includeHeaders="true")
    assert frame.columns[0] == "key"
    assert frame.columns[-2:] == ["timestampType", "headers"]
    values = frame.selectExpr("explode(headers) as header").where("header.key = 'text'")
    assert {bytes(row[0][1]) for row in values.collect()} == {"\u00e9t\u00e9".encode()}


def test_headers_as_json_become_what_spark_has_for_json(
    spark: SparkSession, queue: StoredQueue
) -> None:
    frame = load(spark, queue, headersAs="json", columns="headers")
    found = frame.selectExpr(
        "variant_get(parse_json(headers), '$.table.a.b[1]', 'string') as deep",
        "from_json(headers, 'int32 INT, yes BOOLEAN') as some",
    ).where("deep is not null")
    assert {(row.deep, row.some.int32, row.some.yes) for row in found.collect()} == {
        ("\u00e9", -(2**31), True)
    }


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the zone of this process to that in which the year 10000 begins first."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Pacific/Kiritimati")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("far_east")
def test_times_that_python_does_not_have_are_null_and_what_was_sent_stays(
    spark: SparkSession, tmp_path: Path
) -> None:
    sent = [1_795_267_933, 1_795_267_933_568, TIMES_END_SECONDS - 1, TIMES_END_SECONDS, 2**64 - 1]
    queue = store_queue(tmp_path)
    queue.append(
        [encode_message(1, b"", b"k", Properties(timestamp=each).encode(), b"") for each in sent]
    )
    queue.close()
    frame = load(spark, queue, columns="message_timestamp,message_timestamp_raw")
    frame = frame.orderBy(f.col("message_timestamp_raw"))
    rows = frame.collect()
    assert [row.message_timestamp_raw for row in rows] == [-1, sent[0], *sent[2:4], sent[1]]
    assert [row.message_timestamp is None for row in rows] == [True, False, False, True, True]
    assert rows[1].message_timestamp == datetime.fromtimestamp(sent[0])  # noqa: DTZ006  Spark's own
    in_time = frame.where("message_timestamp < '2200-01-01' or message_timestamp is null")
    pandas: Any = in_time.toPandas()
    assert pandas["message_timestamp"].isna().tolist() == [True, False, True, True]


def test_an_empty_queue_has_no_rows(spark: SparkSession, queue: StoredQueue) -> None:
    assert load(spark, queue, subscribe="empty").count() == 0


def test_filters_are_checked_by_spark_while_push_down_is_off(
    spark: SparkSession, queue: StoredQueue
) -> None:
    frame = load(spark, queue).where("offset >= 330")
    assert frame.rdd.getNumPartitions() > 3
    assert frame.count() == 6


@pytest.mark.usefixtures("pushing")
def test_filters_spare_reading_while_push_down_is_on(
    spark: SparkSession, queue: StoredQueue, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = load(spark, queue, pushDownFilters="true").where(
        "offset >= 330 and topic = 'orders' and timestamp >= '2023-11-14 22:13:20Z'"
    )
    assert frame.rdd.getNumPartitions() <= 2
    assert frame.count() == 6
    frame.explain()
    plan = capsys.readouterr().out
    assert "Filter" in plan
    assert "offset" in plan.split("BatchScan amqplog")[0]
    assert load(spark, queue).where("priority = 255 and key is not null").count() == 4


@pytest.mark.usefixtures("pushing")
def test_queries_of_one_frame_have_nothing_of_each_others_filters(
    spark: SparkSession, queue: StoredQueue
) -> None:
    """Spark 4.3 keeps what the filters of one query left as the plan of all others."""
    frame = load(spark, queue)
    assert frame.where("offset < 10").union(frame.where("offset >= 300")).count() == 46
    assert frame.count() == 336


def test_what_a_task_fails_for_reaches_the_user(
    spark: SparkSession, queue: StoredQueue, tmp_path: Path
) -> None:
    bad = store_queue(tmp_path, segment_bytes=10_000)
    bad.append(plain_messages(300))
    bad.close()
    segment = bad.segments()[1]
    flip_middle(segment)
    with pytest.raises(PySparkException) as caught:
        load(spark, bad).count()
    message = str(caught.value)
    assert "queue 'orders' of virtual host '/'" in message
    assert f"{segment.name}: damaged at position" in message
    permissive = load(spark, bad, mode="PERMISSIVE")
    ((reason,),) = (
        permissive.selectExpr("get_json_object(_corrupt_record, '$.reason') as reason")
        .where("reason is not null")
        .collect()
    )
    assert reason == "a chunk whose checksum is wrong"


def test_what_is_wrong_with_an_option_reaches_the_user(
    spark: SparkSession, queue: StoredQueue
) -> None:
    with pytest.raises(PySparkException, match="did you mean startingOffsets"):
        load(spark, queue, startingOffset="1")
