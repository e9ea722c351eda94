"""Exports through a real cluster: a standalone master and two workers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import appendlog
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.plain_reader import expected_rows, written_rows
from tests.spark.standalone_cluster import Cluster, standalone_cluster

REPOSITORY = Path(appendlog.__file__).resolve().parent.parent
COMMAND = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from cli.main import main
sys.exit(main())
"""
COUNT = 6000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> list[StoredQueue]:
    """Return two queues of several segments each."""
    directory = tmp_path_factory.mktemp("data")
    queues = [store_queue(directory, name, segment_bytes=64 << 10) for name in ("a", "b")]
    for stored in queues:
        stored.append(plain_messages(COUNT))
        stored.close()
    return queues


def start(
    cluster: Cluster, directory: Path, *arguments: str, python: str | None = None
) -> "subprocess.Popen[str]":
    """Start the command in a directory that has folders with the names of ours."""
    for name in ("appendlog", "metadata", "offsets"):
        (directory / name).mkdir(parents=True)
        (directory / name / "__init__.py").write_text("raise RuntimeError('the wrong one')\n")
    ours = ("AMQP_SERVER_", "PYTHON", "PYSPARK_", "SPARK_")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    if python is not None:
        environment["PYSPARK_PYTHON"] = python
    for key, value in cluster.settings().items():
        arguments = (*arguments, "--spark-conf", f"{key}={value}")
    return subprocess.Popen(
        [sys.executable, "-P", "-c", COMMAND, "export", "--master", cluster.url, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check_rows(out: Path, queues: list[StoredQueue], end: int) -> None:
    for stored in queues:
        rows = written_rows(out / f"queue={stored.location.queue}")
        assert rows == expected_rows(stored.location, 0, end)
