"""The demo as a user runs it: a process, with few flights."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FLIGHTS = "3000"
# A program that is started in the background of a shell inherits that Ctrl-C is ignored.
PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from cli.main import main; sys.exit(main(sys.argv[1:]))"
)


def environment(tmp_path: Path, *, java: bool) -> dict[str, str]:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    changed = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary)}
    if not java:
        changed["JAVA_HOME"] = str(tmp_path / "no-java")
    return os.environ | changed


def start(tmp_path: Path, *arguments: str, java: bool = False) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM, "demo", *arguments],
        cwd=tmp_path,
        env=environment(tmp_path, java=java),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.crash
def test_no_flight_is_lost_when_the_broker_is_killed_and_a_missing_java_is_named(
    tmp_path: Path,
) -> None:
    with start(tmp_path, "--flights", FLIGHTS, "--storage-path", "data") as demo:
        output, progress = demo.communicate()

    assert demo.returncode == 3, output + progress
    assert f"{FLIGHTS} confirmed" in output
    found = re.search(r"0 lost; (\d+) came twice, (\d+) of these marked redelivered", output)
    assert found is not None, output
    assert found[1] == found[2]
    assert "Spark needs Java 17 or newer" in output
    assert f"confirmed: {FLIGHTS} of {FLIGHTS}" in progress
    assert (tmp_path / "data" / "logs").is_dir()


@pytest.mark.spark
def test_spark_counts_the_flights_that_were_published(tmp_path: Path) -> None:
    with start(tmp_path, "--flights", FLIGHTS, "--out", "export", java=True) as demo:
        output, progress = demo.communicate()

    assert demo.returncode == 0, output + progress
    assert "0 lost" in output
    assert "amqp-server export --storage-path" in output
    counts = re.findall(r"^   (?:[A-Z0-9]{2})  .* (\d+) +-?[\d.]+ min$", output, re.MULTILINE)
    assert sum(map(int, counts)) == int(FLIGHTS)
    assert list((tmp_path / "export").rglob("*.parquet"))
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.crash
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_takes_its_broker_with_it_and_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    with start(tmp_path) as demo:
        assert demo.stdout is not None
        listening = next(line for line in demo.stdout if "listens on" in line)
        demo.send_signal(number)
        _, errors = demo.communicate()
    broker = int(listening.rpartition(" ")[2])

    assert (demo.returncode, errors) == (130, "\n")
    assert not is_running(broker)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_data_directory_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()

    with start(tmp_path, "--storage-path", str(tmp_path)) as demo:
        output, errors = demo.communicate()

    assert (demo.returncode, output) == (2, "")
    assert errors == f"amqp-server: error: --storage-path: {tmp_path} is not empty\n"


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
