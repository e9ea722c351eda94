"""`amqp-server doctor` as a user calls it: output, exit codes, a server that runs, a taken port."""

import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer

REPOSITORY = Path(__file__).resolve().parents[3]
NO_PORTS = ("--port", "0", "--management-port", "0", "--metrics-port", "0")

Rows = dict[str, list[dict[str, Any]]]


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


def doctor(
    capsys: pytest.CaptureFixture[str], storage_path: Path, *options: str
) -> tuple[int, Rows]:
    """Return the exit code, and the findings by subject."""
    arguments = ["--storage-path", str(storage_path), *(options or NO_PORTS)]
    exit_code = main(["doctor", "--json", *arguments])
    found: Rows = {}
    for row in json.loads(capsys.readouterr().out):
        found.setdefault(row["subject"], []).append(row)
    return exit_code, found


def texts(rows: list[dict[str, Any]]) -> str:
    return "\n".join(f"{row['state']}: {row['text']} -> {row['advice']}" for row in rows)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("AMQP_SERVER_") and name != "AMQP_SERVER_PURE_PYTHON":
            monkeypatch.delenv(name)


def test_every_part_of_a_machine_is_looked_at_and_nothing_is_changed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    exit_code, found = doctor(capsys, tmp_path / "data")

    assert exit_code == 0
    assert found.keys() >= {
        "program",
        "processor",
        "memory",
        "open files",
        "clock",
        "directory",
        "file system",
        "disk space",
        "disk syncs",
        "ports",
        "access",
    }
    assert "does not exist: a server creates it" in texts(found["directory"])
    assert list(tmp_path.iterdir()) == []


def test_people_get_aligned_lines_and_the_number_of_faults(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    (tmp_path / "data").chmod(0o755)

    assert main(["doctor", "--storage-path", str(tmp_path / "data"), *NO_PORTS]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 100 or str(tmp_path) in line or "-> " in line for line in lines)
    at = next(
        index
        for index, line in enumerate(lines)
        if "has mode 0755" in " ".join(lines[index : index + 2])
    )
    assert lines[at].startswith("warning  directory")
    advice = next(line for line in lines[at:] if "-> " in line)
    assert advice.strip() == f"-> chmod 700 {tmp_path}/data"
    assert advice.index("->") == lines[at].index(str(tmp_path)[:5])
    assert "0 errors, " in lines[-1]


def test_a_port_that_another_program_has_is_an_error_and_the_program_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        exit_code, found = doctor(
            capsys, tmp_path, "--port", port, "--management-port", "0", "--metrics-port", "0"
        )

    assert exit_code == 1
    (row,) = found["ports"]
    assert row["state"] == "error"
    assert f"process {os.getpid()}, " in row["text"]
    assert f"127.0.0.1:{port}" in row["text"]


def test_without_the_port_of_the_page_a_server_starts_all_the_same(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ("--port", free_port(), "--management-port", port, "--metrics-port", "0")
        exit_code, found = doctor(capsys, tmp_path, *options)

    assert exit_code == 0
    assert [row["state"] for row in found["ports"]] == ["ok", "warning"]
    assert f"process {os.getpid()}, " in found["ports"][1]["text"]
    assert "--management-port" in found["ports"][1]["advice"]


def test_the_ports_of_the_server_that_runs_on_the_directory_are_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with RunningServer(tmp_path / "data") as server:
        server.start()
        options = ("--port", str(server.port), "--management-port", "0", "--metrics-port", "0")
        exit_code, found = doctor(capsys, tmp_path / "data", *options)

        assert exit_code == 0, found
        assert f"a server runs on this directory, process {server.pid}" in texts(found["ports"])
        assert "belongs to this user alone" in texts(found["directory"])
        assert found["data format"][0]["state"] == "ok"
        assert not server.faults
        assert server.terminate() == 0


def test_settings_that_no_server_starts_with_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["doctor", "--storage-path", str(tmp_path), "--segment-bytes", "1"]) == 2

    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("amqp-server: error: --segment-bytes: ")


def test_a_mistyped_variable_is_a_warning(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMQP_SERVER_PROT", "5673")

    exit_code, found = doctor(capsys, tmp_path)

    assert exit_code == 0
    assert "AMQP_SERVER_PROT" in texts(found["settings"])


@pytest.mark.parametrize(
    ("limit", "exit_code", "state"), [(100, 1, "error"), (2_000, 0, "warning"), (20_000, 0, "ok")]
)
def test_the_limit_of_open_files_is_that_of_the_process(
    tmp_path: Path, limit: int, exit_code: int, state: str
) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < limit:
        pytest.skip(f"needs a hard limit of {limit} open files")
    program = [sys.executable, "-P", "-m", "amqp_server", "doctor", "--json", *NO_PORTS]
    ended = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -n {limit} && exec "$@"', "sh", *program],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (exit_code, "")
    (row,) = [each for each in json.loads(ended.stdout) if each["subject"] == "open files"]
    assert row["state"] == state
    assert f"limit is {limit}" in row["text"]
    assert state == "ok" or "LimitNOFILE=" in row["advice"]
