"""The command as a process, with a Spark of its own; and beside a real server."""

import os
import subprocess
import sys
from pathlib import Path

import pika
import pytest
from pyspark.sql import SparkSession

import appendlog
from appendlog.spark.exporting.committing.files_destination import FilesDestination
from appendlog.spark.exporting.export import QueueExport, run_export
from appendlog.spark.exporting.export_plan import ExportRequest, plan_queue
from appendlog.spark.exporting.spark_runner import SparkRunner
from appendlog.spark.exporting.stores.local_store import LocalStore
from appendlog.spark.planning.queues import find_queue
from tests.servers import RunningServer
from tests.spark.builders import plain_messages, store_queue
from tests.spark.local_exports import PARQUET
from tests.spark.plain_reader import expected_rows, written_rows

pytestmark = pytest.mark.spark

REPOSITORY = Path(appendlog.__file__).resolve().parent.parent
COMMAND = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from cli.main import main
sys.exit(main())
"""


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a directory, as an installed script does: -P, and no PYTHONPATH."""
    ours = ("AMQP_SERVER_", "PYTHON", "PYSPARK_", "SPARK_")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    return subprocess.run(
        [sys.executable, "-P", "-c", COMMAND, "export", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_an_export_beside_folders_of_the_user_with_our_names(tmp_path: Path) -> None:
    stored = store_queue(tmp_path / "data", "flights", segment_bytes=4096)
    stored.append(plain_messages(300), step=10)
    stored.close()
    for name in ("appendlog", "cli", "metadata", "offsets", "ring", "pyarrow"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong one')\n")
    before = set(tmp_path.iterdir())

    ended = run(tmp_path, "--queue", "flights", "--out", "out", "--master", "local[2]")

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(
        f"exported 300 messages, offsets [0, 300) of queue flights, to {tmp_path}/out: "
    )
    lines = ended.stderr.splitlines()
    assert lines[0].startswith("queue flights: 300 offsets in ")
    assert lines[1] == "starting Spark (local[2])"
    assert all(" of log done, " in line for line in lines[2:]), "only our own words"
    assert lines[2:]
    assert written_rows(tmp_path / "out") == expected_rows(stored.location)
    assert set(tmp_path.iterdir()) - before == {tmp_path / "out"}

    again = run(tmp_path, "--queue", "flights", "--out", "out")
    assert (again.returncode, again.stderr) == (3, "")


def publish(server: RunningServer, start: int, end: int) -> None:
    """Publish persistent messages, each confirmed."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port))
    channel = connection.channel()
    channel.queue_declare("flights", durable=True)
    channel.confirm_delivery()
    for number in range(start, end):
        properties = pika.BasicProperties(
            delivery_mode=2, message_id=str(number), headers={"number": number}
        )
        channel.basic_publish("", "flights", b"%d" % number, properties, mandatory=True)
    connection.close()


def test_a_servers_queue_is_exported_while_it_runs_and_when_it_has_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()

    def export() -> list[tuple[str, bytes, str]]:
        log = find_queue(data, "/", "flights")
        output = FilesDestination(LocalStore(out), log)
        plan = plan_queue(data, log, output, ExportRequest())
        if not plan.is_empty:
            exports = [QueueExport(plan, output)]
            runner = SparkRunner(spark.sparkContext)
            run_export(runner, exports, PARQUET, lambda *_: None, lambda _: None)
        return [
            (row["message_id"], row["value"], row["headers"]["number"]) for row in written_rows(out)
        ]

    with RunningServer(data) as server:
        server.start()
        publish(server, 0, 100)
        assert export() == [(str(n), b"%d" % n, str(n)) for n in range(100)]
        publish(server, 100, 150)
        assert export() == [(str(n), b"%d" % n, str(n)) for n in range(150)]
        publish(server, 150, 170)
        assert server.terminate() == 0
        assert export() == [(str(n), b"%d" % n, str(n)) for n in range(170)]
        server.restart()
        publish(server, 170, 180)
        server.kill()
        assert export() == [(str(n), b"%d" % n, str(n)) for n in range(180)]
