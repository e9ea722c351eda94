"""What `spark-submit` makes of our archive, in Pythons that have nothing else of ours.

For `make check-tools`: both are deprecated, and the two Sparks take 20 s of a core to start.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from appendlog import Compression
from appendlog.spark.running.packaging import package_archive
from tests.spark.builders import all_kinds_of_messages, plain_messages, store_queue
from tests.spark.clean_python import CleanPython
from tests.spark.standalone_cluster import QUICK_JVM

ROOT: Final = Path(__file__).parents[2]

pytestmark = pytest.mark.spark

READ = """
import importlib.util, sys
from pyspark.sql import SparkSession
import pyspark_amqplog

spark = SparkSession.builder.getOrCreate()
pyspark_amqplog.enable(spark)
reading = spark.read.format("amqplog").option("path", sys.argv[1])
for queue in ("plain", "packed"):
    rows = reading.option("subscribe", queue).load()
    found = rows.selectExpr("count(*)", "sum(length(value))", "max(offset)").first()
    print("found", queue, *found)
print("has", *filter(importlib.util.find_spec, ("crc32c", "zstandard", "orjson")))
spark.stop()
"""


def test_the_data_source_reads_in_a_python_that_has_pyspark_and_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    messages = all_kinds_of_messages() + plain_messages(3000)
    for queue, compression in (("plain", Compression.NONE), ("packed", Compression.ZSTD)):
        stored = store_queue(tmp_path / "data", queue, compression=compression)
        stored.append(messages, step=400)
        stored.close()
    program = tmp_path / "read.py"
    program.write_text(READ)
    python = CleanPython(tmp_path / "clean", packages=("crc32c", "zstandard"))
    command = [str(python.site_packages / "pyspark" / "bin" / "spark-submit")]
    command += ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf"]
    command += [f"spark.driver.extraJavaOptions={QUICK_JVM}"]
    command += ["--py-files", str(package_archive()), str(program), str(tmp_path / "data")]
    printed = python.run_command(command, {}, seconds_max=200).splitlines()
    assert "has crc32c zstandard" in printed
    body_bytes = 9 * (0 + 1 + 256 + 160) + 40 * 3000
    for queue in ("plain", "packed"):
        assert f"found {queue} 3036 {body_bytes} 3035" in printed


def test_the_printed_command_exports(tmp_path: Path) -> None:
    stored = store_queue(tmp_path / "data dir", "orders")
    stored.append(plain_messages(500))
    stored.close()
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": QUICK_JVM,
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    command = [sys.executable, "-P", "-c", "from cli.entry import main; main()", "export"]
    command += ["--queue", "orders", "--storage-path", "data dir", "--out=out"]
    command += ["--master", "local[1]", "--print-spark-submit"]
    printed = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=tmp_path,
    ).stdout
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    del environment["PYTHONPATH"]
    # The workers get an archive: nothing in it is compiled, and nothing can be asked to be.
    environment.pop("AMQP_SERVER_REQUIRE_COMPILED", None)
    done = subprocess.run(
        ["bash", "-c", printed],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=elsewhere,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert "exported 500 messages" in done.stdout
    assert pq.read_table(tmp_path / "out", columns=["offset"]).num_rows == 500
