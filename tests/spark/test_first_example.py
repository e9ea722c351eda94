"""The first example of docs/spark.md, in a Python that is called by its path."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from appendlog import encode_message
from appendlog.layout.message import PERSISTENT
from tests.spark.builders import store_queue
from tests.spark.standalone_cluster import QUICK_JVM

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


def test_it_reads_a_queue_without_an_active_environment(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "spark.md").read_text(), re.DOTALL)
    assert found
    stored = store_queue(tmp_path / "data", "orders")
    stored.append([encode_message(PERSISTENT, b"", b"orders", b"\0\0", b"a first order")])
    stored.close()
    # Spark's own choice of a Python is now one that knows nothing of this package.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "python3").chmod(0o755)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "PYTHONPATH"}
    }
    done = subprocess.run(
        [sys.executable, "-c", found[1]],
        env=kept
        | {
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "PYSPARK_SUBMIT_ARGS": (
                "--master local[1] --conf spark.ui.enabled=false "
                "--conf spark.driver.host=127.0.0.1 pyspark-shell"
            ),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": QUICK_JVM,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "a first order" in done.stdout
