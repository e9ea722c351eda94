"""`amqp-server replay`: what it says, and how it ends."""

import json
from pathlib import Path
from typing import Any

import pytest

import cli.replay
from cli.main import main
from tests.amqp_client import connect
from tests.servers import RunningServer


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""


@pytest.fixture
def storage(server: RunningServer) -> list[str]:
    """A server with three settled messages in `q`, and an empty queue `again`."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-retain-for": 3_600_000})
        client.declare("again")
        for body in (b"a", b"b", b"c"):
            client.publish(body, "q")
        client.expect_confirmed()
        for _ in range(3):
            assert client.get("q") is not None
    return ["--storage-path", str(server.storage_path)]


def ready(server: RunningServer, queue: str) -> int:
    with connect(server.address) as client:
        client.open_channel()
        return client.ready_count(queue)


def test_it_says_what_it_did(
    server: RunningServer, storage: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["replay", "--queue", "q", "--from", "1", *storage]
    assert main([*arguments, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("would replay 2 messages, ")
    assert said.out.endswith(" bytes, from q to q: offsets 1 to 2\n")
    assert said.err == ""
    assert ready(server, "q") == 0
    assert main([*arguments, "--to", "again"]) == 0
    assert capsys.readouterr().out.startswith("replayed 2 messages, ")
    assert (ready(server, "q"), ready(server, "again")) == (0, 2)
    assert main([*arguments, "--until", "1"]) == 0
    assert capsys.readouterr().out == "replayed 0 messages, 0 bytes, from q to q\n"


def test_programs_get_an_object(
    server: RunningServer, storage: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--queue", "q", "--from", "-2", "--json", *storage]) == 0
    done = json.loads(capsys.readouterr().out)
    assert (done["replayed"], done["first_offset"], done["last_offset"]) == (2, 1, 2)
    assert (done["start"], done["until"], done["next"], done["passed"]) == (1, 3, 3, 0)
    assert ready(server, "q") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--queue", "q"], 2, "Missing option '--from'"),
        (["--from", "first"], 2, "Missing option '--queue'"),
        (["--queue", "nope", "--from", "first"], 2, "no queue 'nope' in vhost '/'"),
        (["--queue", "q", "--from", "soon"], 2, "'soon' is no place in a log"),
        (["--queue", "q", "--from", "first", "--filter", "x"], 2, "'x' is not a filter"),
        (["--queue", "q", "--from", "first", "--include", "some"], 2, "'some' is not one of"),
        (["--queue", "q", "--from", "4"], 2, "start: offset 4 is not kept"),
        (["--queue", "q", "--from", "2", "--until", "1"], 2, "is above the end, 1"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    storage: list[str],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    reason: str,
) -> None:
    assert main(["replay", *arguments, *storage]) == code
    written = capsys.readouterr()
    assert written.out == ""
    assert reason in written.err
    assert written.err.count("\n") == 1


def test_without_a_server_it_cannot_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "--queue", "q", "--from", "0", "--storage-path", str(tmp_path)]) == 2
    assert "no server is running on the data directory" in capsys.readouterr().err


@pytest.mark.parametrize("told", [True, False])
def test_an_interrupted_one_says_where_to_go_on(
    storage: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    told: bool,
) -> None:
    class Interrupted:
        """A client whose user is impatient."""

        def __init__(self, _path: Path) -> None:
            pass

        def replay(self, _queue: str, *, on_progress: Any, **_arguments: Any) -> None:  # noqa: ANN401
            progress = {"start": 0, "until": 3, "next": 2, "replayed": 2, "is_waiting": False}
            if told:
                on_progress(progress)
            raise KeyboardInterrupt

    monkeypatch.setattr(cli.replay, "QueueClient", Interrupted)
    assert main(["replay", "--queue", "q", "--from", "0", *storage]) == 1
    how_far = (
        "2 messages below offset 2 were replayed, continue with --from 2"
        if told
        else "no progress is known: run the command again from the start"
    )
    assert capsys.readouterr().err == f"amqp-server: error: interrupted; {how_far}\n"


def test_a_terminal_shows_how_far_it_is(
    storage: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["replay", "--queue", "q", "--from", "0", *storage]) == 0
    written = capsys.readouterr()
    assert written.out.startswith("replayed 3 messages")
    assert "3 messages, offset 3 of 0 to 3" in written.err
    assert written.err.endswith("\r\x1b[K")
