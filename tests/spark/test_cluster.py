"""An export through a real cluster: a standalone master and two workers, without our package."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import appendlog
from tests.embedded.waiting import until
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.plain_reader import expected_rows, written_rows
from tests.spark.standalone_cluster import Cluster, standalone_cluster

pytestmark = pytest.mark.spark

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


def start(cluster: Cluster, directory: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start the command in a directory that has folders with the names of ours."""
    for name in ("appendlog", "metadata", "offsets"):
        (directory / name).mkdir(parents=True)
        (directory / name / "__init__.py").write_text("raise RuntimeError('the wrong one')\n")
    ours = ("AMQP_SERVER_", "PYTHON", "PYSPARK_", "SPARK_")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
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


def finished_tasks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["Event"] == "SparkListenerTaskEnd"]


def check_rows(out: Path, queues: list[StoredQueue], end: int) -> None:
    for stored in queues:
        rows = written_rows(out / f"queue={stored.location.queue}")
        assert rows == expected_rows(stored.location, 0, end)


def test_both_workers_export_and_one_may_die(
    cluster: Cluster, queues: list[StoredQueue], tmp_path: Path
) -> None:
    arguments = ["--storage-path", str(queues[0].storage_path), "--queue", "a,b"]
    half = ["--until", str(COUNT // 2)]
    first = start(cluster, tmp_path / "1", *arguments, "--out", "out", *half)
    _, complained = first.communicate(timeout=120)
    assert first.returncode == 0, complained
    events = cluster.take_events()
    assert {task["Task Info"]["Executor ID"] for task in finished_tasks(events)} == {"0", "1"}
    check_rows(tmp_path / "1" / "out", queues, COUNT // 2)

    second = start(cluster, tmp_path / "2", *arguments, "--out", "out")
    doomed = cluster.workers[1]
    # Its first task is what starts Python there; it needs longer than to be seen.
    until(lambda: bool(doomed.processes("pyspark.daemon")) or second.poll() is not None)
    doomed.kill()
    _, complained = second.communicate(timeout=120)
    assert second.returncode == 0, complained
    check_rows(tmp_path / "2" / "out", queues, COUNT)
    lost = [
        task["Task Info"]
        for task in finished_tasks(cluster.take_events())
        if task["Task End Reason"]["Reason"] == "ExecutorLostFailure"
    ]
    assert lost, "a task was killed in the middle"
