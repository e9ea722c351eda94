"""`amqp-server vhosts` and `amqp-server status` against a real server."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import main
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

EVERY_COMMAND = (["vhosts", "list"], ["vhosts", "add", "x"], ["vhosts", "delete", "x", "--yes"])


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must be done; return what it writes."""
    code = main(arguments)
    written = capsys.readouterr()
    assert (code, written.err) == (0, "")
    return written.out


def refuse(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Run what must not be done; return the complaint, which must be one line."""
    assert main(arguments) == code
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("amqp-server: error: ")
    assert written.err.count("\n") == 1
    return written.err.removeprefix("amqp-server: error: ").rstrip("\n")


def listed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [vhost["name"] for vhost in json.loads(run(capsys, "vhosts", "list", "--json"))]


def test_added_listed_and_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "vhosts", "add", "team/orders") == "added vhost 'team/orders'\n"
    assert listed(capsys) == ["/", "team/orders"]
    assert run(capsys, "vhosts", "list").splitlines() == [
        "CONNECTIONS  QUEUES       READY  NAME",
        "          0       0           0  /",
        "          0       0           0  team/orders",
    ]
    deleted = run(capsys, "vhosts", "delete", "team/orders", "--yes")
    assert deleted == "deleted vhost 'team/orders'\n"
    assert listed(capsys) == ["/"]


def test_a_name_that_is_not_utf_8_is_refused_before_the_server_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command in (["add", "a\udcff"], ["delete", "a\udcff", "--yes"]):
        assert "is not UTF-8" in refuse(capsys, 2, "vhosts", *command)


def test_what_the_server_does_not_do_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert refuse(capsys, 1, "vhosts", "add", "/") == "vhost '/' already exists"
    missing = refuse(capsys, 1, "vhosts", "delete", "x", "--yes")
    assert missing == "vhost 'x' does not exist"
    assert refuse(capsys, 1, "vhosts", "add", "") == "the name of a vhost must have 1 to 255 bytes"
    assert (
        refuse(capsys, 1, "vhosts", "add", "n" * 256)
        == "the name of a vhost must have 1 to 255 bytes"
    )


@pytest.mark.parametrize("command", [*EVERY_COMMAND, ["status"]])
def test_without_a_server_it_is_exit_code_2(
    server: RunningServer, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    server.terminate()
    complaint = refuse(capsys, 2, *command)
    assert complaint == f"no server is running on the data directory {server.storage_path}"


@pytest.mark.parametrize("command", [*EVERY_COMMAND, ["status"]])
def test_the_option_wins_over_the_environment(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    complaint = refuse(capsys, 2, *command, "--storage-path", str(tmp_path / "other"))
    assert str(tmp_path / "other") in complaint


def test_nothing_is_deleted_where_nobody_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "vhosts", "add", "x")
    assert "--yes" in refuse(capsys, 2, "vhosts", "delete", "x")
    assert listed(capsys) == ["/", "x"]


@pytest.mark.parametrize(("answer", "left"), [("y", ["/"]), ("n", ["/", "x"])])
def test_somebody_at_a_terminal_is_asked(
    server: RunningServer, capsys: pytest.CaptureFixture[str], answer: str, left: list[str]
) -> None:
    run(capsys, "vhosts", "add", "x")
    command = [sys.executable, "-P", "-m", "amqp_server", "vhosts", "delete", "x"]
    controller, terminal = os.openpty()
    try:
        asking = subprocess.Popen(
            [*command, "--storage-path", str(server.storage_path)],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        )
        os.write(controller, answer.encode() + b"\n")
        out, err = asking.communicate(timeout=HANG_SECONDS)
    finally:
        os.close(controller)
        os.close(terminal)
    assert "Delete vhost 'x' with its queues and all their messages?" in err
    assert (asking.returncode == 0) == (answer == "y")
    assert (out == "deleted vhost 'x'\n") == (answer == "y")
    assert listed(capsys) == left


def test_a_name_with_a_line_feed_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "vhosts", "add", "a\nb")
    assert r"'a\nb'" in run(capsys, "vhosts", "list").splitlines()[-1]
    assert listed(capsys) == ["/", "a\nb"]


@pytest.mark.parametrize("command", ["add", "delete"])
def test_a_name_that_is_missing_is_asked_for(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert refuse(capsys, 2, "vhosts", command) == "Missing argument 'NAME'."


def test_what_to_do_must_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert refuse(capsys, 2, "vhosts") == "write what to do: add, list or delete"
    assert "drop" in refuse(capsys, 2, "vhosts", "drop")


@pytest.mark.parametrize("command", [["vhosts"], *([*each, "-h"] for each in EVERY_COMMAND)])
def test_the_help_pages_have_examples_or_exit_codes(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    page = run(capsys, *command[:2], "--help") if len(command) > 1 else run(capsys, "vhosts", "-h")
    assert "Exit codes: 0 done" in " ".join(page.split())


def test_status_tells_what_is_running(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(run(capsys, "status", "--json"))
    assert (found["pid"], found["host"], found["port"]) == (server.pid, server.host, server.port)
    page = run(capsys, "status")
    assert f"process {server.pid}" in page
    assert f"listening on {server.host}:{server.port}" in page
    assert ["vhosts", "1"] in [line.split() for line in page.splitlines()]
    assert "alarms: none" in page
    assert 0 < found["disk_free_bytes_min"] < found["disk_free_bytes"]


def test_another_user_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def deny(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("amqp_server.control.client.socket_address", deny)
    complaint = refuse(capsys, 2, "status")
    assert complaint.startswith(f"{server.storage_path}/control.sock: permission denied: ")
