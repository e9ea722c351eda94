"""What impatient users do with the tools: a text and RabbitMQ's exit code, and no traceback."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.exit_codes import EXIT_TRY_AGAIN
from cli.main import main
from cli.rabbitmq_tools.main import run as run_here
from tests.cli.rabbitmq_tools.conversation import Exchange, run
from tests.servers import NO_MANAGEMENT, RunningServer

CALLS = (
    ("rabbitmqctl", "status"),
    ("rabbitmqctl", "list_queues"),
    ("rabbitmqctl", "stop"),
    ("rabbitmq-diagnostics", "ping"),
    ("rabbitmq-diagnostics", "log_tail"),
    ("rabbitmq-plugins", "list"),
    ("rabbitmq-queues", "rebalance", "all"),
    ("rabbitmq-upgrade", "drain"),
)
"""One of each kind."""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Install the tools for a data directory that does not exist yet."""
    arguments = ["install-rabbitmq-tools", str(tmp_path / "tools"), "--storage-path"]
    assert main([*arguments, str(tmp_path / "data")]) == 0
    return tmp_path / "tools"


def call(tools: Path, *words: str, **variables: str) -> Exchange:
    return run(words, tools, "rabbit@host", {"PATH": os.defpath, **variables})


def assert_unreachable(found: Exchange, why: str) -> None:
    text = "\n".join(found.errors)
    assert found.code == 69, found
    assert text.startswith("Error:\nunable to perform an operation on node"), found
    assert why in text, found
    assert "Traceback" not in text


@pytest.mark.parametrize("words", CALLS)
def test_no_server_runs(tools: Path, words: tuple[str, ...]) -> None:
    assert_unreachable(call(tools, *words), "No such file or directory")


def test_the_server_was_killed(tools: Path) -> None:
    with RunningServer(tools.parent / "data", environment=NO_MANAGEMENT).start() as server:
        server.kill()
        for words in CALLS:
            assert_unreachable(call(tools, *words), "Connection refused")


def test_the_data_directory_is_a_file_or_another_directory(tools: Path) -> None:
    (tools.parent / "data").write_text("")
    assert_unreachable(call(tools, "rabbitmqctl", "status"), "Not a directory")
    other = str(tools.parent)
    found = call(tools, "rabbitmqctl", "status", AMQP_SERVER_STORAGE_PATH=other)
    assert_unreachable(found, f"the data directory {other}")


def test_two_servers_are_told_apart_by_the_directory(tools: Path) -> None:
    parent = tools.parent
    with (
        RunningServer(parent / "data", environment=NO_MANAGEMENT).start() as one,
        RunningServer(parent / "other", environment=NO_MANAGEMENT).start() as two,
    ):
        ports = [
            call(tools, "rabbitmq-diagnostics", "-q", "listeners", **variables).output[0]
            for variables in ({}, {"AMQP_SERVER_STORAGE_PATH": str(parent / "other")})
        ]
        assert f"port: {one.port}" in ports[0]
        assert f"port: {two.port}" in ports[1]
        assert ports[0] != ports[1]


def test_a_second_server_on_the_same_directory_is_refused(tools: Path) -> None:
    data = tools.parent / "data"
    with RunningServer(data, environment=NO_MANAGEMENT).start():
        second = subprocess.run(
            [sys.executable, "-m", "amqp_server", "--port", "0", "--storage-path", str(data)],
            env={**os.environ, **NO_MANAGEMENT},
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == EXIT_TRY_AGAIN
        assert "in use" in second.stderr
        # The first one is not harmed.
        assert call(tools, "rabbitmq-diagnostics", "-q", "ping").code == 0


def test_a_server_that_hangs_is_given_up(tools: Path) -> None:
    with RunningServer(tools.parent / "data", environment=NO_MANAGEMENT).start() as server:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            found = call(tools, "rabbitmq-diagnostics", "-t", "1", "check_running")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert_unreachable(found, "it did not answer in time")


def test_what_answers_is_no_server(tools: Path) -> None:
    data = tools.parent / "data"
    data.mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(data / "control.sock"))
        other.listen()
        # Nobody accepts: the tool waits as long as it is told.
        found = call(tools, "rabbitmq-diagnostics", "-t", "1", "ping")
        assert_unreachable(found, "it did not answer in time")


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become another user")
def test_another_user_may_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "data")
    with RunningServer(tmp_path / "data", environment=NO_MANAGEMENT).start():
        # In this process, which has read all modules: another user may not read the checkout.
        assert run_here("rabbitmqctl", path, ["status"]) == 0
        capsys.readouterr()
        os.seteuid(65_534)
        try:
            code = run_here("rabbitmqctl", path, ["status"])
        finally:
            os.seteuid(0)
    assert code == 69
    assert "Permission denied" in capsys.readouterr().err


def test_output_that_nobody_reads_ends_the_tool_quietly(tools: Path) -> None:
    with RunningServer(tools.parent / "data", environment=NO_MANAGEMENT).start():
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "wb") as sink:
            done = subprocess.run(
                [str(tools / "rabbitmqctl"), "report"],
                stdout=sink,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
    assert (done.returncode, done.stderr) == (141, "")
