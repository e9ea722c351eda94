"""`format("amqplog")` on a data directory in an object store."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from appendlog.spark.source.data_source import batch_reader, row_ddl
from pyspark_amqplog import enable
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.object_stores import ACCESS_KEY, SECRET_KEY, LoopbackS3, upload
from tests.spark.plain_reader import expected_rows, table_rows
from tests.spark.source_reading import struct_of


@pytest.fixture
def stored(tmp_path: Path) -> StoredQueue:
    stored = store_queue(tmp_path / "data", segment_bytes=16 << 10)
    stored.append(plain_messages(500), step=10)
    stored.close()
    return stored


def options_of(s3: LoopbackS3, stored: StoredQueue) -> dict[str, str]:
    url = f"s3://{s3.new_bucket()}/data"
    upload(stored.storage_path, url, s3.options)
    secrets = {f"fs.{name}": value for name, value in s3.values.items()}
    return {"path": url, "subscribe": "orders", **secrets}


def test_an_archive_is_read_like_a_directory(s3: LoopbackS3, stored: StoredQueue) -> None:
    options = options_of(s3, stored)
    reader = batch_reader(options, struct_of(row_ddl(options)))
    partitions = reader.partitions()
    assert SECRET_KEY not in repr(partitions) + str([vars(each) for each in partitions])
    worker = pickle.loads(pickle.dumps(reader))
    batches = [
        batch for each in pickle.loads(pickle.dumps(partitions)) for batch in worker.read(each)
    ]
    found = [row for batch in batches for row in table_rows(batch)]
    expected = expected_rows(stored.location)
    assert [row["value"] for row in found] == [row["value"] for row in expected]
    assert [row["offset"] for row in found] == [row["offset"] for row in expected]


@pytest.mark.spark
def test_spark_reads_an_archive_and_explains_no_secret(
    spark: SparkSession, s3: LoopbackS3, stored: StoredQueue, capfd: pytest.CaptureFixture[str]
) -> None:
    enable(spark)
    rows = spark.read.format("amqplog").options(**options_of(s3, stored)).load()
    assert rows.where("offset >= 490").count() == 10
    rows.explain("extended")
    execution = rows._jdf.queryExecution()
    shown = capfd.readouterr().out + execution.toString() + execution.logical().toJSON()
    assert "offset" in shown
    assert SECRET_KEY not in shown
    assert ACCESS_KEY not in shown
