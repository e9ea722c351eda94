"""`events.follow` and `log.follow`: who follows, who does not read, and who is killed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from amqp_server.broker.events import follower
from amqp_server.control import following
from amqp_server.control.client import ask
from amqp_server.control.listener import CONNECTIONS_MAX, FOLLOWERS_MAX
from tests.amqp_client import AmqpClient, AnyDeclare, connect
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer


class Following:
    """A connection to a control socket that follows something."""

    def __init__(self, storage_path: Path, command: str, **arguments: object) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(HANG_SECONDS)
        self.socket.connect(str(storage_path / "control.sock"))
        self._lines = self.socket.makefile("rb")
        request = {"version": 1, "command": command, "arguments": arguments}
        self.socket.sendall(orjson.dumps(request) + b"\n")

    def reply(self) -> dict[str, Any]:
        reply = orjson.loads(self._lines.readline())
        assert isinstance(reply, dict)
        return reply

    def read_all(self) -> None:
        while self.reply():
            pass

    def rows(self, name: str) -> Iterator[dict[str, Any]]:
        while True:
            yield from self.reply()["progress"][name]

    def event(self, name: str, object_name: str) -> dict[str, Any]:
        rows = self.rows("events")
        return next(row for row in rows if (row["event"], row.get("object")) == (name, object_name))

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@contextmanager
def follow(storage_path: Path, command: str, **arguments: object) -> Iterator[Following]:
    followed = Following(storage_path, command, **arguments)
    try:
        yield followed
    finally:
        followed.close()


@pytest.fixture
def threaded(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path / "data") as server:
        yield server


@pytest.fixture
def client(threaded: ThreadedServer) -> Iterator[AmqpClient]:
    with connect(threaded.address) as connected:
        connected.open_channel()
        yield connected


def declare(queue: str) -> AnyDeclare:
    return AnyDeclare(0, queue, False, True, False, False, False, None)


def path_of(server: ThreadedServer) -> Path:
    return server.server.config.storage_path


def is_followed(server: ThreadedServer) -> bool:
    return server.server.broker.events.is_followed


def test_events_come_as_the_audit_log_has_them(server: RunningServer) -> None:
    name = 'q <script> "é" \n'
    with follow(server.storage_path, "events.follow") as events:
        assert events.reply() == {"progress": {"events": [], "lost": 0}}
        with connect(server.address) as client:
            client.open_channel()
            client.declare(name)
        created = events.event("queue.created", name.replace("\n", ""))
        assert (created["user"], created["vhost"]) == ("guest", "/")
        assert created["details"]["durable"] is True
        closed = events.rows("events")
        assert any(row["event"] == "channel.closed" for row in closed)


def test_a_line_ends_it_and_the_connection_goes_on(threaded: ThreadedServer) -> None:
    with follow(path_of(threaded), "events.follow") as events:
        assert events.reply()["progress"]["events"] == []
        events.socket.sendall(b"\n")
        assert events.reply() == {"ok": None}
        threaded.wait_until(lambda: not is_followed(threaded))
        events.socket.sendall(b'{"command":"vhosts.list"}\n')
        assert events.reply()["ok"][0]["name"] == "/"


def test_nothing_is_made_while_nobody_follows(threaded: ThreadedServer, client: AmqpClient) -> None:
    assert not is_followed(threaded)
    with follow(path_of(threaded), "events.follow") as events:
        events.reply()
        assert is_followed(threaded)
    threaded.wait_until(lambda: not is_followed(threaded))
    client.declare("q")


def test_a_killed_follower_is_forgotten_at_once(threaded: ThreadedServer) -> None:
    program = (
        "import socket, sys\n"
        "control = socket.socket(socket.AF_UNIX)\n"
        "control.connect(sys.argv[1])\n"
        'control.sendall(b\'{"command": "events.follow"}\\n\')\n'
        "control.recv(1)\n"
        "print('follows', flush=True)\n"
        "control.recv(1 << 20, socket.MSG_WAITALL)\n"
    )
    command = [sys.executable, "-c", program, str(path_of(threaded) / "control.sock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "follows\n"
        assert is_followed(threaded)
        process.send_signal(signal.SIGKILL)
    threaded.wait_until(lambda: not is_followed(threaded))


def test_a_follower_that_does_not_read_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, threaded: ThreadedServer, client: AmqpClient
) -> None:
    monkeypatch.setattr(following, "READ_SECONDS_MAX", 0.1)
    monkeypatch.setattr(follower, "WAITING_MAX", 50)
    with follow(path_of(threaded), "events.follow") as events:
        events.reply()
        number = 0
        while is_followed(threaded):
            client.declare(f"queue-{number}-{'x' * 100}", durable=False)
            number += 1
        # What it had not read is gone with the connection.
        with pytest.raises((ConnectionResetError, orjson.JSONDecodeError)):
            events.read_all()
    client.declare("goes on")


def test_a_slow_follower_hears_how_much_it_has_missed(
    monkeypatch: pytest.MonkeyPatch, threaded: ThreadedServer
) -> None:
    monkeypatch.setattr(follower, "WAITING_MAX", 3)
    with follow(path_of(threaded), "events.follow") as events:
        events.reply()

        def storm() -> None:
            for number in range(10):
                threaded.server.broker.events.report("test.event", object_name=str(number))

        threaded.call(storm)
        progress = events.reply()["progress"]
        assert [row["object"] for row in progress["events"]] == ["0", "1", "2"]
        assert progress["lost"] == 7


def test_followers_take_no_place_of_other_commands(threaded: ThreadedServer) -> None:
    path = path_of(threaded)
    with ExitStack() as opened:
        for _ in range(FOLLOWERS_MAX):
            opened.enter_context(follow(path, "events.follow")).reply()
        one_more = opened.enter_context(follow(path, "log.follow"))
        assert one_more.reply()["error"] == "limit_reached"
        for _ in range(CONNECTIONS_MAX - 1):
            assert "ok" in opened.enter_context(follow(path, "vhosts.list")).reply()
        assert ask(path, "status")["connections"] == 0
    threaded.wait_until(lambda: not is_followed(threaded))


def test_the_log_comes_with_its_last_lines(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.send(declare("amq.forbidden\n\u2028"))
        client.expect_channel_close(403)
        with follow(server.storage_path, "log.follow", last=1000) as log:
            lines = log.rows("lines")
            error = next(line for line in lines if "channel error" in line["message"])
            assert (error["level"], error["logger"]) == ("warning", "amqp_server.client_session")
            client.open_channel(2)
            client.send(declare("amq.again"), 2)
            after = next(line for line in lines if "amq.again" in line["message"])
            assert after["id"] > error["id"]


@pytest.mark.parametrize("last", [-1, 1001])
def test_the_number_of_earlier_lines_is_bounded(threaded: ThreadedServer, last: int) -> None:
    with follow(path_of(threaded), "log.follow", last=last) as log:
        reply = log.reply()
    assert reply["error"] == "invalid_argument"
    assert reply["reason"] == f"log.follow: last is {last}, must be 0 to 1000"
