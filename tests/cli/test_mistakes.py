"""What an impatient user writes, and where it is written to."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from cli import entry
from cli.main import main
from tests.cli.stream_groups import publish
from tests.servers import RunningServer

NOT_UTF8 = "\udcff"
TOO_MANY = "9" * 30


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch, server: RunningServer) -> None:
    clean_environment.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))
    publish(server, 3)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one line that a wrong command line is refused with."""
    capsys.readouterr()
    assert main(arguments) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.count("\n") == 1
    return written.err.removeprefix("amqp-server: error: ").rstrip("\n")


@pytest.mark.parametrize(
    "command",
    [
        ("browse", "--queue", "events"),
        ("browse", "--help"),
        ("offsets", "list", "--queue", "events"),
        ("shards", "list"),
        ("stats",),
        ("status",),
    ],
    ids=" ".join,
)
def test_a_full_disk_below_standard_output_is_one_line(command: Sequence[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *command], stdout=full, stderr=subprocess.PIPE
        )
    text = done.stderr.decode()
    assert text.startswith("amqp-server: error: ")
    assert text.endswith("No space left on device\n")
    assert text.count("\n") == 1
    assert done.returncode == 1


def test_a_standard_output_that_is_closed_is_no_mistake() -> None:
    script = f"exec {sys.executable} -m cli.main browse --queue events >&-"
    done = subprocess.run(["/bin/sh", "-c", script], stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("group", "names"),
    [("offsets", "commit, delete, list, seek or show"), ("shards", "create, delete or list")],
)
def test_a_group_of_commands_without_one_says_which_there_are(
    capsys: pytest.CaptureFixture[str], group: str, names: str
) -> None:
    assert complaint(capsys, group) == f"write what to do: {names}"


@pytest.mark.parametrize(
    "command",
    [
        ("browse", "--queue", NOT_UTF8),
        ("browse", "--queue", "events", "--vhost", NOT_UTF8),
        ("inspect", "--queue", NOT_UTF8),
        ("offsets", "list", "--queue", NOT_UTF8),
        ("replay", "--from", "first", "--queue", NOT_UTF8),
        ("replay", "--from", "first", "--queue", "events", "--to", NOT_UTF8),
        ("shards", "list", "--vhost", NOT_UTF8),
        ("stats", "--queue", NOT_UTF8),
        ("stats", "--match", NOT_UTF8),
    ],
    ids=lambda command: ascii(" ".join(command)),
)
def test_a_name_that_is_not_utf_8_is_refused_before_the_server_is_asked(
    capsys: pytest.CaptureFixture[str], command: Sequence[str]
) -> None:
    assert complaint(capsys, *command).endswith(r": '\udcff' is not UTF-8")


@pytest.mark.parametrize(
    "command",
    [
        ("browse", "--queue", "events", "--limit", TOO_MANY, "--body-bytes", TOO_MANY),
        ("inspect", "--queue", "events", "--limit", TOO_MANY, "--from", "0"),
        ("stats", "--limit", TOO_MANY),
    ],
    ids=lambda command: command[0],
)
def test_a_bound_that_is_beyond_all_numbers_is_no_bound(command: Sequence[str]) -> None:
    assert main(command) == 0


def test_so_many_shards_are_refused_by_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shards", "create", "many", "--shards", TOO_MANY]) == 1
    assert "shards must be 1 to 1024" in capsys.readouterr().err


def test_a_limit_that_is_no_number_is_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    said = complaint(capsys, "stats", "--limit", "many")
    assert said == "--limit: 'many' is not a valid integer."


def test_an_empty_target_of_a_replay_is_not_the_same_queue(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = complaint(capsys, "replay", "--queue", "events", "--from", "first", "--to", "")
    assert said == "--to: '' is no name of a queue; without --to it is the same queue"


def test_a_table_of_nothing_has_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["browse", "--queue", "events", "--from", "next"]) == 0
    assert capsys.readouterr().out.split() == [
        "OFFSET",
        "TIME",
        "STATE",
        "EXCHANGE",
        "KEY",
        "HEADERS",
        "BYTES",
        "BODY",
    ]


class Interrupts:
    """Ctrl-C while `cli.main` is being imported."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Interrupt."""
        if name == "cli.main":
            raise KeyboardInterrupt
        return None


def test_ctrl_c_while_it_starts_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cli.main")
    monkeypatch.setattr(sys, "meta_path", [Interrupts(), *sys.meta_path])
    assert entry.main() == 130
