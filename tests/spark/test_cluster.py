"""An export through a real cluster, one of whose workers dies."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from appendlog.spark.running.packaging import DEPRECATION
from tests.embedded.waiting import until
from tests.limits import HANG_SECONDS
from tests.spark.builders import StoredQueue
from tests.spark.cluster_exports import COUNT, check_rows, cluster, queues, start
from tests.spark.standalone_cluster import Cluster

__all__ = ["cluster", "queues"]
pytestmark = pytest.mark.spark


def finished_tasks(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["Event"] == "SparkListenerTaskEnd"]


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
