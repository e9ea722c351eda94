"""`amqp-server browse`: what a queue has is shown, and stays as it is."""

import json
from pathlib import Path
from typing import Any, Protocol

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.control.client import ControlError, ask
from amqp_server.control.queue_client import QueueClient
from cli.main import main
from tests.amqp_client import AmqpClient, Message, connect
from tests.conftest import StartServer
from tests.data_directories import fill
from tests.servers import RunningServer

Rows = list[dict[str, Any]]
RETAINED = {"x-retain-for": 3_600_000}


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture(autouse=True)
def _environment(clean_environment: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""


class Browse(Protocol):
    """Runs the command with --json; see `browse`."""

    def __call__(self, storage: Path, *arguments: str) -> Rows:
        """Return its rows."""


@pytest.fixture
def browse(capsys: pytest.CaptureFixture[str]) -> Browse:
    """Run the command with --json; return its rows."""

    def run(storage: Path, *arguments: str) -> Rows:
        code = main(["browse", "--json", "--storage-path", str(storage), *arguments])
        written = capsys.readouterr()
        assert code == 0, written.err
        return [json.loads(line) for line in written.out.splitlines()]

    return run


def publish(client: AmqpClient, *bodies: bytes, queue: str = "q", headers: Any = None) -> None:  # noqa: ANN401
    for body in bodies:
        properties = Basic.Properties(delivery_mode=2, headers=headers)
        client.publish(body, queue, properties=properties)
    client.expect_confirmed()


def taken(message: Message | None) -> Message:
    assert message is not None
    return message


def states(rows: Rows) -> list[tuple[str, str]]:
    return [(row["body"], row["state"]) for row in rows]


def test_ready_unacked_and_settled_messages_are_shown_and_nothing_changes(
    server: RunningServer, browse: Browse
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments=RETAINED)
        publish(client, b"a", b"b", b"c", b"d")
        taken(client.get("q", no_ack=True))
        taken(client.get("q", no_ack=False))
        back = taken(client.get("q", no_ack=False))
        client.send(Basic.Reject(back.tag, requeue=True))
        assert client.ready_count("q") == 2
        for _ in range(2):
            rows = browse(server.storage_path, "--queue", "q")
            assert states(rows) == [
                ("a", "settled"),
                ("b", "unacked"),
                ("c", "ready"),
                ("d", "ready"),
            ]
            assert [row["offset"] for row in rows] == [0, 1, 2, 3]
        assert client.ready_count("q") == 2
        again = taken(client.get("q"))
        assert (again.body, again.redelivered) == (b"c", True)
        last = taken(client.get("q"))
        assert (last.body, last.redelivered) == (b"d", False)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--state", "settled"], "ab"),
        (["--state", "retained"], "ab"),
        (["--state", "unacked"], "c"),
        (["--state", "ready"], "defgh"),
        (["--from", "2", "--until", "4"], "cd"),
        (["--from", "-2"], "gh"),
        (["--from", "-100", "--limit", "3"], "abc"),
        (["--from", "last"], "h"),
        (["--from", "next"], ""),
        (["--from", "99"], ""),
        (["--from", "1h"], "abcdefgh"),
        (["--until", "1h"], ""),
        (["--from", "2001-01-01", "--until", "2100-01-01"], "abcdefgh"),
        (["--filter", "kind=odd"], "bdfh"),
        (["--filter", "kind=odd", "--filter", "n=3"], "d"),
        (["--filter", "kind=odd", "--limit", "2"], "bd"),
    ],
)
def test_what_is_shown_can_be_chosen(
    server: RunningServer, browse: Browse, arguments: list[str], expected: str
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments=RETAINED)
        for number, body in enumerate("abcdefgh"):
            kind = "odd" if number % 2 else "even"
            publish(client, body.encode(), headers={"kind": kind, "n": number})
        for _ in range(2):
            taken(client.get("q"))
        taken(client.get("q", no_ack=False))
        rows = browse(server.storage_path, "--queue", "q", *arguments)
        assert "".join(row["body"] for row in rows) == expected


def test_a_message_is_told_whole(server: RunningServer, browse: Browse) -> None:
    octets = bytes(range(256))
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        properties = Basic.Properties(
            delivery_mode=2, content_type="image/png", headers={"n": 5, "t": {"a": [True]}}
        )
        client.publish(octets, "q", properties=properties)
        client.expect_confirmed()
        (row,) = browse(server.storage_path, "--queue", "q")
        (cut,) = browse(server.storage_path, "--queue", "q", "--body-bytes", "2")
    assert row["body_base64"].startswith("AAECAw")
    assert row["is_body_cut"] is False
    assert (cut["body"], cut["body_bytes"], cut["is_body_cut"]) == ("\0\1", 256, True)
    assert row["properties"]["content_type"] == "image/png"
    assert row["properties"]["headers"]["t"] == {"kind": "F", "value": {"a": [True]}}
    assert (row["exchange"], row["routing_key"], row["is_persistent"]) == ("", "q", True)
    assert row["timestamp"].endswith("+00:00")


def test_the_table_is_aligned_and_bodies_are_cut(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish(client, b"short", b"long" * 100, b"two\nlines", headers={"n": 1})
    assert main(["browse", "--queue", "q", "--storage-path", str(server.storage_path)]) == 0
    heads, *lines = capsys.readouterr().out.splitlines()
    assert heads.split() == [
        *("OFFSET", "TIME", "STATE", "EXCHANGE", "KEY", "HEADERS", "BYTES", "BODY"),
    ]
    at = heads.index("BODY")
    assert [line[at:] for line in lines] == ["short", "long" * 15 + "...", "'two\\nlines'"]
    assert all("n=1" in line for line in lines)


def test_more_than_a_page_is_shown_without_gaps(server: RunningServer, browse: Browse) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish(client, *(b"%d" % number for number in range(2500)))
        rows = browse(server.storage_path, "--queue", "q", "--limit", "2100", "--from", "100")
    assert [row["body"] for row in rows] == [str(number) for number in range(100, 2200)]


def test_a_page_is_bounded_in_bytes(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        publish(client, *(bytes([97 + number]) * 600_000 for number in range(4)))
    page = ask(
        server.storage_path,
        "queues.browse",
        vhost="/",
        queue="q",
        start="first",
        until="",
        state="",
        filters=[],
        limit=1000,
        body_bytes=-1,
    )
    assert [message["offset"] for message in page["messages"]] == [0, 1]
    assert (page["next"], page["until"], page["log_start_offset"]) == (2, 4, 0)
    found = list(QueueClient(server.storage_path).browse("q", start="1"))
    assert [message["body"][0] for message in found] == ["b", "c", "d"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_in_memory_is_shown_too(
    server: RunningServer, browse: Browse, *, durable: bool
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", durable=durable, exclusive=True)
        publish(client, b"a", b"b", b"c")
        taken(client.get("q", no_ack=False))
        rows = browse(server.storage_path, "--queue", "q")
        assert states(rows) == [("a", "unacked"), ("b", "ready"), ("c", "ready")]
        assert rows[0]["timestamp"] is None


def test_a_transient_queue_that_spilled_is_shown_whole(
    start_server: StartServer, browse: Browse
) -> None:
    """Its front is in the log, its end in memory, and what was settled in between is nowhere."""
    server = start_server("--ring-size", "1024")
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", durable=False)
        publish(client, *(b"%d" % number for number in range(3000)))
        for _ in range(10):
            taken(client.get("q"))
        rows = browse(server.storage_path, "--queue", "q", "--limit", "5000", "--state", "ready")
    assert [row["body"] for row in rows] == [str(number) for number in range(10, 3000)]


def test_messages_by_priority_are_shown_by_offset(server: RunningServer, browse: Browse) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-max-priority": 3, **RETAINED})
        for number in (0, 2, 1, 2):
            properties = Basic.Properties(delivery_mode=2, priority=number)
            client.publish(b"%d" % number, "q", properties=properties)
        client.expect_confirmed()
        assert taken(client.get("q")).body == b"2"
        rows = browse(server.storage_path, "--queue", "q")
    assert states(rows) == [("0", "ready"), ("2", "settled"), ("1", "ready"), ("2", "ready")]


def test_a_stream_is_shown(server: RunningServer, browse: Browse) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-queue-type": "stream"})
        publish(client, b"a", b"b")
        rows = browse(server.storage_path, "--queue", "q")
    assert states(rows) == [("a", "ready"), ("b", "ready")]


def test_a_queue_on_its_way_to_dead_letters_or_purged_is_told_right(
    server: RunningServer, browse: Browse
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments=RETAINED)
        publish(client, b"a", b"b")
        client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
        publish(client, b"c")
        rows = browse(server.storage_path, "--queue", "q")
    assert states(rows) == [("a", "settled"), ("b", "settled"), ("c", "ready")]


def test_without_a_server_the_files_are_read_and_the_command_says_so(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments=RETAINED)
        publish(client, b"a", b"b", headers={"n": 1})
        client.publish(b"t", "q", properties=Basic.Properties(headers={"n": 1}))
        client.expect_confirmed()
        taken(client.get("q"))
        assert client.ready_count("q") == 2
    server.terminate()
    storage = ["--storage-path", str(server.storage_path)]
    assert main(["browse", "--json", "--queue", "q", "--filter", "n=1", *storage]) == 0
    written = capsys.readouterr()
    rows = [json.loads(line) for line in written.out.splitlines()]
    assert states(rows) == [("a", "settled"), ("b", "ready"), ("t", "settled")]
    assert "no server is running: states are those of the last checkpoint" in written.err
    assert main(["browse", "--json", "--queue", "q", "--from", "-2", "--limit", "1", *storage]) == 0
    assert json.loads(capsys.readouterr().out)["body"] == "b"


def test_an_empty_queue_has_no_rows(tmp_path: Path, browse: Browse) -> None:
    fill(tmp_path / "data", a=0)
    assert browse(tmp_path / "data", "--queue", "a") == []


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--queue", "nope"], 2, "no queue 'nope' in vhost '/'"),
        (["--queue", "q", "--vhost", "nope"], 2, "vhost 'nope' does not exist"),
        (["--queue", "q", "--from", "soon"], 2, "'soon' is no place in a log"),
        (["--queue", "q", "--until", "soon"], 2, "'soon' is no place in a log"),
        (["--queue", "q", "--filter", "n"], 2, "'n' is not a filter"),
        (["--queue", "q", "--state", "gone"], 2, "'gone' is not one of"),
        (["--queue", "q", "--limit", "0"], 2, "0 is not in the range"),
        ([], 2, "Missing option '--queue'"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    server: RunningServer,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    reason: str,
) -> None:
    assert main(["browse", "--storage-path", str(server.storage_path), *arguments]) == code
    written = capsys.readouterr()
    assert written.out == ""
    assert reason in written.err
    assert written.err.count("\n") == 1


def test_without_a_server_a_queue_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / "data", a=1)
    storage = ["--storage-path", str(tmp_path / "data")]
    assert main(["browse", "--queue", "nope", *storage]) == 2
    assert "no durable queue 'nope'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("limit", 0),
        ("limit", 1001),
        ("body_bytes", -2),
        ("state", "retained"),
        ("filters", ["n"]),
        ("filters", "n=1"),
        ("start", ""),
        ("until", "soon"),
    ],
)
def test_a_request_that_cannot_be_is_refused(
    server: RunningServer, argument: str, value: object
) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
    request: dict[str, Any] = {"vhost": "/", "queue": "q", "start": "first", "until": ""}
    request |= {"state": "", "filters": [], "limit": 10, "body_bytes": -1}
    with pytest.raises(ControlError, match=argument):
        ask(server.storage_path, "queues.browse", **{**request, argument: value})
