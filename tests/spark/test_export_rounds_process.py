"""`amqp-server export --every` as a process, with a Spark of its own that dies once."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.limits import HANG_SECONDS
from tests.spark.builders import plain_messages, store_queue
from tests.spark.plain_reader import written_rows
from tests.spark.test_command_process import COMMAND

pytestmark = pytest.mark.spark


def java_below(pid: int) -> int:
    """Return the process id of the JVM that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (java,) = (
        int(child) for child in children if "java" in str(Path(f"/proc/{child}/exe").readlink())
    )
    return java


def test_one_spark_serves_all_rounds_and_is_started_again_when_it_has_died(tmp_path: Path) -> None:
    stored = store_queue(tmp_path / "data", "flights", segment_bytes=4096)
    stored.append(plain_messages(300), step=10)
    arguments = ("--queue", "flights", "--out", "out", "--master", "local[2]", "--every", "1s")
    ours = ("AMQP_SERVER_", "PYTHON", "PYSPARK_", "SPARK_")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    environment["TMPDIR"] = str(tmp_path)
    with (
        (tmp_path / "err").open("wb") as err,
        subprocess.Popen(
            [sys.executable, "-P", "-c", COMMAND, "export", *arguments],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=err,
            stdin=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None

        def next_export() -> int:
            """Return the messages of the next round that has some."""
            assert process.stdout is not None
            for line in process.stdout:
                if found := re.search(r": (\d+) messages of 1 queue", line):
                    return int(found[1])
            pytest.fail(f"it has ended: {(tmp_path / 'err').read_text()}")

        try:
            assert next_export() == 300
            java = java_below(process.pid)
            stored.append(plain_messages(20, 300))
            assert next_export() == 20
            assert java_below(process.pid) == java

            os.kill(java, signal.SIGKILL)
            stored.append(plain_messages(30, 320))
            assert next_export() == 30
            assert java_below(process.pid) != java

            process.terminate()
            assert process.wait(HANG_SECONDS) in (0, 130)
        finally:
            process.kill()
    stored.close()
    assert [row["offset"] for row in written_rows(tmp_path / "out")] == list(range(350))
    lines = (tmp_path / "err").read_text().splitlines()
    started = [line for line in lines if line == "starting Spark (local[2])"]
    assert len(started) == 2
    assert [line for line in lines if " failed: " not in line and line not in started] in (
        [],
        ["interrupted: the next start exports what this round did not"],
    )
    assert not list(tmp_path.glob("amqp-server-export-*"))
