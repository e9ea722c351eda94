"""Streams in Spark itself: what only Spark can show."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, rmtree

import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import rand
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_amqplog.sink import parquet_sink
from tests.amqp_client import connect
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.spark.builders import StoredQueue, plain_messages, store_queue

pytestmark = pytest.mark.spark


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[StoredQueue]:
    queue = store_queue(tmp_path / "data", segment_bytes=4096)
    queue.append(plain_messages(600), step=10)
    yield queue
    queue.close()


def rows_of(spark: SparkSession, path: Path, queue: str, **options: str) -> DataFrame:
    return (
        spark.readStream.format("amqplog")
        .schema("topic string, offset bigint, value binary")
        .options(**{"subscribe": queue, "startingOffsets": "earliest", **options})
        .load(str(path))
    )


def end(query: StreamingQuery) -> list[int]:
    """Wait for the end of a query, and return how many rows its batches had."""
    assert query.awaitTermination(HANG_SECONDS)
    assert query.exception() is None
    return [progress["numInputRows"] for progress in query.recentProgress]


def test_available_now_and_a_batch_that_comes_again(
    spark: SparkSession, stored: StoredQueue, tmp_path: Path
) -> None:
    rows = rows_of(spark, stored.storage_path, "orders", maxOffsetsPerTrigger="250")
    to_files = (
        rows.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    assert end(to_files.start()) == [250, 250, 100]
    incarnation = str(stored.location.incarnation)
    last = (tmp_path / "checkpoint" / "offsets" / "2").read_text().splitlines()[-1]
    assert json.loads(last) == {
        "orders": {"0": 600, "from": 0, "incarnation": incarnation, "version": 1, "vhost": "/"}
    }

    # As after a crash between the sink and the commit log, in a log that has grown meanwhile.
    for path in (tmp_path / "checkpoint" / "commits").glob("*2*"):
        path.unlink()
    stored.append(plain_messages(30, first=600), step=10)
    end(to_files.start())
    found = spark.read.parquet(str(tmp_path / "out")).select("offset", "value").collect()
    assert sorted(row.offset for row in found) == list(range(630))
    assert all(int(row.value.rstrip(b".")) == row.offset for row in found)


def test_a_checkpoint_that_is_older_than_the_output_is_refused(
    spark: SparkSession, stored: StoredQueue, tmp_path: Path
) -> None:
    """Its batches need not be those that had their numbers: to skip them would lose rows."""
    out = str(tmp_path / "out")

    def run(checkpoint: str, offsets_max: int) -> str:
        rows = rows_of(
            spark, stored.storage_path, "orders", maxOffsetsPerTrigger=str(offsets_max)
        ).withColumn("fraction", rand())
        query = (
            rows.writeStream.foreachBatch(parquet_sink(out))
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(HANG_SECONDS)
        except StreamingQueryException as error:
            return str(error)
        return ""

    assert run("good", 300) == ""
    copytree(tmp_path / "good", tmp_path / "old")
    stored.append(plain_messages(60, first=600), step=10)
    assert run("good", 20) == ""
    stored.append(plain_messages(40, first=660), step=10)
    assert "batch 2 of query" in (refused := run("old", 100))
    assert "comes again, but batch 4 is here already" in refused
    for folder in ("offsets", "commits"):
        rmtree(tmp_path / "old" / folder)
    assert "batch 0 of query" in run("old", 100)

    # As after a crash between the sink and the commit log: the last batch comes again.
    for path in (tmp_path / "good" / "commits").glob("*4*"):
        path.unlink()
    assert run("good", 100) == ""
    found = pq.read_table(out, columns=["offset"]).column("offset").to_pylist()
    assert sorted(found) == list(range(700))


def test_a_stream_from_latest_misses_nothing_between_two_runs(
    spark: SparkSession, stored: StoredQueue, tmp_path: Path
) -> None:
    rows = rows_of(spark, stored.storage_path, "orders", startingOffsets="latest")
    to_sink = (
        rows.writeStream.foreachBatch(parquet_sink(str(tmp_path / "out")))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
    )
    assert end(to_sink.start()) == [0]
    stored.append(plain_messages(30, first=600), step=10)
    assert end(to_sink.start()) == [30]
    found = pq.read_table(tmp_path / "out", columns=["offset"]).column("offset").to_pylist()
    assert found == list(range(600, 630))


def test_a_stream_beside_a_server_that_is_published_to(
    spark: SparkSession, server: RunningServer, tmp_path: Path
) -> None:
    def publish(count: int) -> None:
        with connect(server.address) as client:
            client.open_channel(2, confirms=True)
            client.declare("live", channel=2)
            for number in range(count):
                client.publish(b"%d" % number, "live", channel=2)
                if number % 100 == 99:
                    client.expect_confirmed(2)
            client.expect_confirmed(2)

    publish(300)
    writer = threading.Thread(target=publish, args=(2000,))
    is_there = threading.Event()
    sink = parquet_sink(str(tmp_path / "out"))
    seen = 0

    def add(rows: DataFrame, batch: int) -> None:
        nonlocal seen
        if batch == 0:
            writer.start()
        sink(rows, batch)
        # Spark stopped between a sink and its commit log calls it again with the same batch.
        sink(rows, batch)
        seen += sum(
            pq.read_metadata(path).num_rows
            for path in (tmp_path / "out").glob(f"part-*-{batch:010d}-*.parquet")
        )
        if seen >= 2300:
            is_there.set()

    rows = rows_of(spark, server.storage_path, "live", maxOffsetsPerTrigger="1000")
    query = (
        rows.writeStream.foreachBatch(add)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    assert is_there.wait(HANG_SECONDS), query.exception()
    query.stop()
    writer.join()
    found = pq.read_table(tmp_path / "out", columns=["offset"]).column("offset").to_pylist()
    assert sorted(found) == list(range(2300))
    assert query.exception() is None
