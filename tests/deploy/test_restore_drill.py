"""The script that tries whether a back-up can be restored, with back-ups of real servers."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from cli.main import main
from tests.amqp_client import connect
from tests.conftest import StartServer
from tests.control.asking import Asking
from tests.data_directories import chunk_positions, damage, fill, segments_of, snapshot
from tests.limits import HANG_SECONDS
from tests.servers import REPOSITORY

SCRIPT: Final = REPOSITORY / "deploy" / "restore-drill"


class Drill:
    """The script, with a program that notes how it is called.

    Args:
        place: Directory of the test.

    Attributes:
        backups: The directory of back-ups.
        work: Where copies lie meanwhile.
        program: The program; tests put another one in its place.
    """

    def __init__(self, place: Path) -> None:
        self.backups = place / "backups"
        self.work = place / "work"
        self.work.mkdir()
        self._calls = place / "calls"
        self.program = place / "amqp-server"
        self.program.write_text(
            f'#!/bin/sh\necho "$@" >>{self._calls}\n'
            f'PYTHONPATH={REPOSITORY} exec {sys.executable} -P -m amqp_server "$@"\n'
        )
        self.program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """The command lines of the program."""
        return self._calls.read_text().splitlines()

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the script."""
        # Settings of a real server must not count.
        strange = {"AMQP_SERVER_PORT": "1", "AMQP_SERVER_HOST": "not-here.invalid"}
        return subprocess.Popen(
            [str(SCRIPT), "--work", self.work.name, "--program", str(self.program), *words],
            cwd=self.work.parent,
            env={**os.environ, **strange},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str, str]:
        """Run the script; return the exit code, and what it writes."""
        with self.start(*words) as running:
            try:
                output, errors = running.communicate(timeout=HANG_SECONDS)
            finally:
                running.terminate()
        assert list(self.work.iterdir()) == []
        return running.returncode, output, errors

    def back_up(self, storage: Path) -> Path:
        """Make a back-up, and return its path."""
        before = set(self.backups.iterdir()) if self.backups.exists() else set()
        words = ["--into", str(self.backups), "--storage-path", str(storage)]
        assert main(["backup", *words]) == 0
        (made,) = {path for path in self.backups.iterdir() if path.is_dir()} - before
        return made


@pytest.fixture
def drill(tmp_path: Path) -> Drill:
    return Drill(tmp_path)


def test_a_good_back_up_passes_and_its_shovels_do_not_run(
    drill: Drill, start_server: StartServer
) -> None:
    server = start_server("--no-shovels")
    outside = socket.create_server(("127.0.0.1", 0))
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for queue in ("a", "b"):
            client.declare(queue)
            client.publish(b"m", queue)
            client.expect_confirmed()
    shovel = {
        "src-uri": "amqp://",
        "src-queue": "a",
        "dest-uri": f"amqp://127.0.0.1:{outside.getsockname()[1]}",
        "dest-queue": "a",
    }
    place = {"vhost": "/", "component": "shovel", "name": "s"}
    Asking(server.storage_path).ask("parameters.set", **place, value={"value": shovel})
    old = drill.back_up(server.storage_path)
    made = drill.back_up(server.storage_path)
    # Neither is a good back-up.
    shutil.copytree(old, drill.backups / "2100-01-01T00-00-00Z.damaged")
    (drill.backups / "2100-01-01T00-00-00Z").mkdir()
    before = snapshot(drill.backups)

    code, output, errors = drill.run(str(drill.backups))
    assert (code, errors) == (0, "")
    assert output.startswith(f"back-up: {made}\nverify: clean: 2 queues")
    assert re.search(
        rf"\nrestore drill passed: 2 queues, 2 messages, back-up of {made.name}, \d+ s\n\Z", output
    )
    (start,) = [call for call in drill.calls if call.startswith("--storage-path")]
    assert "--no-shovels" in start.split()
    outside.setblocking(False)
    with outside, pytest.raises(BlockingIOError):
        outside.accept()
    assert snapshot(drill.backups) == before


def test_a_damaged_back_up_fails(drill: Drill, tmp_path: Path) -> None:
    fill(tmp_path / "data", a=6)
    made = drill.back_up(tmp_path / "data")
    (segment,) = segments_of(made, "a")
    damage(segment, chunk_positions(segment)[2] + 60)

    code, output, errors = drill.run(str(made))
    assert code == 1
    assert output == f"back-up: {made}\n"
    assert errors.endswith(f"restore drill failed: verify finds damage in {made}\n")
    assert "\ndamaged: 1 queues" in errors


STEPS: Final = {
    "verify *": 'echo "clean: 1 queues"',
    "recover --dry-run *": 'echo "queues: 1 opened, 0 not; 1 segments, 2 records, 2 ready"',
    "--storage-path *": "sleep infinity & trap 'kill $!; exit 0' TERM\n"
    'echo "Server startup complete; 0 plugins started."; wait',
    "recover --last *": 'echo "queues: 1 opened, 0 not; 1 segments, 2 records, 2 ready"',
    "status *": "true",
    "stats *": "true",
}
"""What a program that plays the server does for each command."""

FAILURES: Final = {
    "the dry run": (
        {"recover --dry-run *": "echo orders: unreadable; exit 5"},
        r"orders: unreadable\nrestore drill failed: a start on .* would find damage",
    ),
    "a queue of the dry run": (
        {"recover --dry-run *": 'echo "queues: 1 opened, 1 not; 2 records, 2 ready"'},
        "the report of recover --dry-run on .* cannot be read",
    ),
    "the start": (
        {"--storage-path *": "echo 'error: no room' >&2; exit 1"},
        "error: no room\nrestore drill failed: the server did not start on a copy of",
    ),
    "the report of the start": ({"recover --last *": "exit 4"}, "the start found damage"),
    "the counts": (
        {"recover --last *": 'echo "queues: 1 opened, 0 not; 1 segments, 2 records, 1 ready"'},
        r"the files promise \(queues, messages\) 1 2, the server found 1 1",
    ),
    "the status": ({"status *": "exit 2"}, "the server does not answer"),
    "the stop": (
        {
            "--storage-path *": "trap 'exit 3' TERM\necho 'Server startup complete'\n"
            "read -r x <$0.in"
        },
        "the server did not stop cleanly: exit code 3",
    ),
}


def play(drill: Drill, steps: dict[str, str]) -> None:
    """Put a program in the place of the server's, and something to copy."""
    cases = "".join(
        f"{command.replace(' ', chr(92) + ' ')})\n{answer}\n;;\n"
        for command, answer in (STEPS | steps).items()
    )
    drill.program.write_text(f'#!/bin/bash\ncase "$*" in\n{cases}esac\n')
    os.mkfifo(f"{drill.program}.in")
    drill.backups.mkdir()
    (drill.backups / "FORMAT").write_text("2\n")


def test_with_a_program_that_plays_the_server_it_passes(drill: Drill) -> None:
    play(drill, {})
    code, output, errors = drill.run(str(drill.backups))
    assert (code, errors) == (0, "")
    assert "restore drill passed: 1 queues, 2 messages" in output


@pytest.mark.parametrize("step", FAILURES)
def test_each_step_can_fail(drill: Drill, step: str) -> None:
    steps, complaint = FAILURES[step]
    play(drill, steps)
    code, output, errors = drill.run(str(drill.backups))
    assert code == 1
    assert re.search(complaint, errors), errors
    assert "passed" not in output


def test_a_drill_that_is_told_to_end_leaves_nothing(drill: Drill) -> None:
    play(drill, {"--storage-path *": 'echo $$ >"$0.in"; exec sleep infinity'})
    running = drill.start(str(drill.backups))
    pid = int(Path(f"{drill.program}.in").read_text())
    running.send_signal(signal.SIGTERM)
    _, errors = running.communicate(timeout=HANG_SECONDS)
    assert (running.returncode, errors) == (1, "restore drill failed: interrupted\n")
    assert list(drill.work.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_start_has_a_limit(drill: Drill) -> None:
    play(drill, {"--storage-path *": "exec sleep infinity"})
    code, _, errors = drill.run("--start-limit", "1", str(drill.backups))
    assert (code, errors) == (1, "restore drill failed: the server did not start in 1 s\n")


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ([], 2, "name the directory of the back-ups"),
        (["--wrong"], 2, "unknown option --wrong"),
        (["--work"], 2, "--work needs a value"),
        (["--start-limit", "1h", "a"], 2, "not a number of seconds from 1"),
        (["--program", "/missing", "a"], 2, "/missing: no such program"),
        (["a", "b"], 2, "one directory at a time"),
        (["/missing"], 1, "/missing has no good back-up"),
    ],
)
def test_wrong_calls_are_told(drill: Drill, words: list[str], code: int, complaint: str) -> None:
    found, _, errors = drill.run(*words)
    assert found == code
    assert complaint in errors
