"""An export through a real cluster: a standalone master and two workers."""

import os
import subprocess
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import appendlog
from appendlog.spark.running.packaging import DEPRECATION, PACKAGES
from tests.embedded.waiting import until
from tests.limits import HANG_SECONDS
from tests.spark.builders import StoredQueue, plain_messages, store_queue
from tests.spark.clean_python import CleanPython
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


def finished_tasks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["Event"] == "SparkListenerTaskEnd"]


def check_rows(out: Path, queues: list[StoredQueue], end: int) -> None:
    for stored in queues:
        rows = written_rows(out / f"queue={stored.location.queue}")
        assert rows == expected_rows(stored.location, 0, end)


def test_a_worker_without_a_package_ends_the_export_in_one_line_that_names_it(
    cluster: Cluster, queues: list[StoredQueue], tmp_path: Path
) -> None:
    clean = CleanPython(tmp_path / "clean")
    exporting = start(
        cluster,
        tmp_path / "run",
        *("--storage-path", str(queues[0].storage_path), "--queue", "a", "--out", "out"),
        *("--spark-conf", "spark.task.maxFailures=1"),
        python=str(clean.executable),
    )
    _, complained = exporting.communicate(timeout=HANG_SECONDS)
    cluster.take_events()
    assert exporting.returncode == 1
    *_, warning, error = complained.splitlines()
    assert warning == f"warning: {DEPRECATION}"
    assert error.startswith(
        "amqp-server: error: Spark failed: the package crc32c is missing in "
        f"{clean.executable}, and the checksums of logs need it: pip install crc32c there; "
    )


def test_a_packed_environment_brings_the_package_with_its_compiled_kernels(
    cluster: Cluster, queues: list[StoredQueue], tmp_path: Path
) -> None:
    environment = CleanPython(tmp_path / "env", packages=("crc32c", "zstandard"))
    for name in PACKAGES:
        (environment.site_packages / name).symlink_to(REPOSITORY / name)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "env", ".")
    exporting = start(
        cluster,
        tmp_path / "run",
        *("--storage-path", str(queues[0].storage_path), "--queue", "a", "--out", "out"),
        *("--spark-conf", f"spark.archives={tmp_path / 'env.tar.gz'}#env"),
        *("--spark-conf", "spark.executorEnv.AMQP_SERVER_REQUIRE_COMPILED=1"),
        python="./env/bin/python",
    )
    _, complained = exporting.communicate(timeout=HANG_SECONDS)
    cluster.take_events()
    assert (exporting.returncode, "warning" in complained) == (0, False), complained
    check_rows(tmp_path / "run" / "out", queues[:1], COUNT)


def test_both_workers_export_and_one_may_die(
    cluster: Cluster, queues: list[StoredQueue], tmp_path: Path
) -> None:
    arguments = ["--storage-path", str(queues[0].storage_path), "--queue", "a,b"]
    exporting = start(cluster, tmp_path / "run", *arguments, "--out", "out")
    doomed = cluster.workers[1]
    # Its first task is what starts Python there; it needs longer than to be seen.
    until(lambda: bool(doomed.processes("pyspark.daemon")) or exporting.poll() is not None)
    doomed.kill()
    _, complained = exporting.communicate(timeout=HANG_SECONDS)
    assert exporting.returncode == 0, complained
    assert f"warning: {DEPRECATION}\n" in complained
    check_rows(tmp_path / "run" / "out", queues, COUNT)
    tasks: defaultdict[str, set[str]] = defaultdict(set)
    for task in finished_tasks(cluster.take_events()):
        tasks[task["Task End Reason"]["Reason"]].add(task["Task Info"]["Executor ID"])
    assert tasks["ExecutorLostFailure"], "a task was killed in the middle"
    assert tasks["Success"] - tasks["ExecutorLostFailure"], "the other worker has done the rest"
