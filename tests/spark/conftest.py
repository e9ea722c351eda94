"""What tests share: one Spark, whose start takes longer than all that is done with it; stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from appendlog.spark.running.session import spark_session
from tests.spark.object_stores import LoopbackS3, loopback_s3
from tests.spark.stream_directory import QueueDirectory


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start Spark with two workers, as the command does, and two tries for each task."""
    log_path = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("local[2,2]", log_path) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.session.timeZone", "UTC")
        yield session


@pytest.fixture(scope="session")
def s3() -> Iterator[LoopbackS3]:
    """Run an S3 server on loopback."""
    with loopback_s3() as server:
        yield server


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[QueueDirectory]:
    """Give a data directory whose readers are stopped and whose logs are closed at the end."""
    directory = QueueDirectory(tmp_path)
    yield directory
    for reader in directory.readers:
        reader.stop()
    for stored in directory.queues.values():
        stored.close()
