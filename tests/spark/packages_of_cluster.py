"""Packages of a real cluster's workers, missing and brought along: for `make check-tools`."""

import tarfile
from pathlib import Path

import pytest

from appendlog.spark.running.packaging import DEPRECATION, PACKAGES
from tests.limits import HANG_SECONDS
from tests.spark.builders import StoredQueue
from tests.spark.clean_python import CleanPython
from tests.spark.cluster_exports import COUNT, REPOSITORY, check_rows, cluster, queues, start
from tests.spark.standalone_cluster import Cluster

__all__ = ["cluster", "queues"]
pytestmark = pytest.mark.spark


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
