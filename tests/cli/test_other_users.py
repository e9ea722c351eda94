"""Another user of the operating system reads and asks nothing, whatever its command."""

import io
import json
import os
import shutil
import socket
import stat
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Final

import pytest

from appendlog.errors import LogError
from appendlog.reader import LogReader
from cli.main import main
from offsets import LogRoot
from tests.amqp_client import connect
from tests.servers import RunningServer

NOBODY = 65_534

COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("status",),
    ("stats",),
    ("users", "list"),
    ("users", "reset", "--no-password", "--yes"),
    ("permissions", "set", "guest"),
    ("policies", "list"),
    ("limits", "list"),
    ("definitions", "export"),
    ("audit",),
    ("browse", "--queue", "a"),
    ("offsets", "list"),
    ("replay", "--queue", "a", "--to", "b"),
    ("inspect",),
    ("verify",),
    ("backup", "copy"),
)


@pytest.fixture
def storage() -> Iterator[Path]:
    """Return a data directory of a running server, below a directory that all may enter."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    try:
        with RunningServer(top / "data") as server:
            server.start()
            with connect(server.address) as client:
                client.open_channel(confirms=True)
                client.declare("a")
                client.publish(b"secret of the owner", "a")
                client.expect_confirmed()
            yield top / "data"
    finally:
        shutil.rmtree(top)


def as_nobody(act: Callable[[], object]) -> object:
    """Return what a function returns in a process of another user; it must be JSON.

    Only root can become another user. Others learn by the mode that nobody else may enter.
    """
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(sink, json.dumps(act()).encode())
        except BaseException:  # noqa: BLE001 - the process ends below, whatever happened
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(sink)
    with os.fdopen(source, "rb") as answer:
        octets = answer.read()
    os.waitpid(child, 0)
    return json.loads(octets)


def refuses_by_mode(storage: Path) -> bool:
    """Return whether this process cannot become another user; checks the mode instead."""
    assert stat.S_IMODE(storage.stat().st_mode) == 0o700
    return os.geteuid() != 0


def run(arguments: tuple[str, ...], storage: Path) -> tuple[int, str, str]:
    out, complaint = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with redirect_stdout(out), redirect_stderr(complaint):
        code = main([*arguments, "--storage-path", str(storage)])
    out.flush()
    return code, out.buffer.getvalue().decode(), complaint.getvalue()


def test_commands_of_another_user_are_refused_in_one_line(storage: Path) -> None:
    if refuses_by_mode(storage):
        return
    for command in COMMANDS:
        # Imports what the command needs: the other user may not be allowed to read Python itself.
        assert run(command, storage.parent / "missing")[0] != 0
    results = as_nobody(lambda: [run(each, storage) for each in COMMANDS])
    assert isinstance(results, list)
    for command, (code, out, complaint) in zip(COMMANDS, results, strict=True):
        assert code != 0, command
        assert out == "", command
        assert complaint.count("\n") == 1, (command, complaint)
        reasons = ("Permission denied", "is not readable", "may not")
        assert any(reason in complaint for reason in reasons), (command, complaint)


def connects(path: Path) -> str:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path / "control.sock"))
        except OSError as error:
            return type(error).__name__
    return "connected"


def reads(path: Path) -> str:
    try:
        with LogReader(path) as reader:
            return f"read {reader}"
    except (OSError, LogError) as error:
        return type(error).__name__


def embeds(path: Path) -> str:
    try:
        with LogRoot.open(path):
            return "opened"
    except Exception as error:  # noqa: BLE001 - any refusal will do
        return type(error).__name__


def test_the_control_socket_and_the_files_are_closed_to_another_user(storage: Path) -> None:
    (log,) = storage.glob("logs/%2f/a/*")
    if refuses_by_mode(storage):
        return
    assert as_nobody(lambda: connects(storage)) == "PermissionError"
    assert as_nobody(lambda: reads(log)) != f"read {log}"
    assert as_nobody(lambda: embeds(storage)) != "opened"
    assert as_nobody(lambda: os.access(storage, os.R_OK | os.X_OK)) is False
