"""The control socket of the running server: who may use it, and what it replies."""

import asyncio
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Semaphore
from typing import Any

import orjson
import pytest

from amqp_server.control import listener, registry
from amqp_server.control.client import UnreachableError, ask
from amqp_server.control.listener import CONNECTIONS_MAX
from amqp_server.control.protocol import LINE_BYTES_MAX
from tests.conftest import StartServer
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

LIST = b'{"version":1,"command":"vhosts.list"}\n'


class Talk:
    """A connection to a control socket that may send anything."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._replies = connection.makefile("rb")

    def send(self, octets: bytes) -> None:
        self.socket.sendall(octets)

    def reply(self) -> dict[str, Any]:
        reply = orjson.loads(self._replies.readline())
        assert isinstance(reply, dict)
        return reply

    def expect_end(self) -> None:
        assert self._replies.readline() == b""

    def close(self) -> None:
        self._replies.close()
        self.socket.close()


@contextmanager
def talk(storage_path: Path) -> Iterator[Talk]:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(HANG_SECONDS)
    connection.connect(str(storage_path / "control.sock"))
    talking = Talk(connection)
    try:
        yield talking
    finally:
        talking.close()


@pytest.fixture
def storage_path(tmp_path: Path) -> Iterator[Path]:
    with ThreadedServer(tmp_path / "data"):
        yield tmp_path / "data"


def test_only_the_user_of_the_server_may_use_the_socket(storage_path: Path) -> None:
    mode = (storage_path / "control.sock").stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600


def test_a_clean_stop_removes_the_socket(server: RunningServer) -> None:
    path = server.storage_path / "control.sock"
    assert path.is_socket()
    assert server.terminate() == 0
    assert not path.exists()
    with pytest.raises(UnreachableError, match="no server is running on"):
        ask(server.storage_path, "status")


def test_a_socket_that_cannot_be_removed_does_not_prevent_a_clean_stop(
    server: RunningServer,
) -> None:
    path = server.storage_path / "control.sock"
    path.unlink()
    path.mkdir()

    assert server.terminate() == 0

    assert "control.sock" in server.wait_for_message("control socket not removed")


def test_the_socket_of_a_killed_server_is_replaced(server: RunningServer) -> None:
    server.kill()
    assert (server.storage_path / "control.sock").is_socket()
    with pytest.raises(UnreachableError, match="no server is running on"):
        ask(server.storage_path, "status")

    server.restart()

    assert ask(server.storage_path, "status")["pid"] == server.pid


def test_a_path_longer_than_a_socket_address_works(
    start_server: StartServer, tmp_path: Path
) -> None:
    storage_path = tmp_path / ("d" * 120) / "data"
    storage_path.parent.mkdir()
    server = start_server(storage_path=storage_path)

    assert ask(storage_path, "status")["pid"] == server.pid
    assert server.terminate() == 0
    assert not (storage_path / "control.sock").exists()


def test_a_server_without_a_socket_serves_its_clients(
    start_server: StartServer, tmp_path: Path
) -> None:
    storage_path = tmp_path / "data"
    (storage_path / "control.sock" / "in the way").mkdir(parents=True)
    server = start_server(storage_path=storage_path)

    assert "control.sock" in server.wait_for_message("no control socket")
    assert server.terminate() == 0


@pytest.mark.parametrize(
    ("line", "error", "reason"),
    [
        (b"hello", "bad_request", "not JSON"),
        (b"[]", "bad_request", "not a JSON object"),
        (b"\xff\xfe", "bad_request", "not JSON"),
        (b"", "bad_request", "not JSON"),
        (b"{}", "bad_request", '"command"'),
        (b'{"command":7}', "bad_request", '"command"'),
        (b'{"command":"status","arguments":[]}', "bad_request", '"arguments"'),
        (b'{"command":"status","argument":{}}', "bad_request", "unknown fields argument"),
        (b'{"version":2,"command":"status"}', "unsupported_version", "version 2"),
        (
            b'{"command":"reboot"}',
            "unknown_command",
            "; known are ",
        ),
        (b'{"command":"vhosts.add"}', "invalid_argument", "'name' is missing"),
        (b'{"command":"vhosts.add","arguments":{"name":7}}', "invalid_argument", "must be text"),
        (b'{"command":"status","arguments":{"x":1}}', "invalid_argument", "unknown argument 'x'"),
        (b'{"command":"vhosts.add","arguments":{"name":"/"}}', "already_exists", "vhost '/'"),
        (b'{"command":"vhosts.delete","arguments":{"name":"x"}}', "not_found", "vhost 'x'"),
    ],
)
def test_a_failed_request_gets_an_error_and_the_next_one_is_answered(
    storage_path: Path, line: bytes, error: str, reason: str
) -> None:
    with talk(storage_path) as client:
        client.send(line + b"\n")
        reply = client.reply()
        assert reply.keys() == {"error", "reason"}
        assert reply["error"] == error
        assert reason in reply["reason"]
        client.send(LIST)
        assert client.reply().keys() == {"ok"}


def test_requests_sent_together_are_answered_in_order(storage_path: Path) -> None:
    add = b'{"command":"vhosts.add","arguments":{"name":"%d"}}\n'
    with talk(storage_path) as client:
        client.send(b"".join(add % number for number in range(20)) + LIST)
        assert [client.reply() for _ in range(20)] == [{"ok": None}] * 20
        assert len(client.reply()["ok"]) == 21


def test_a_request_without_an_end_is_cut_off(storage_path: Path) -> None:
    with talk(storage_path) as client:
        client.send(b"x" * (LINE_BYTES_MAX + 1))
        assert "longer than" in client.reply()["reason"]
        client.expect_end()


def test_a_client_that_leaves_within_a_request_harms_no_other(server: RunningServer) -> None:
    with talk(server.storage_path) as client:
        client.send(b'{"command":"sta')
    with talk(server.storage_path) as client:
        client.send(LIST)
    assert ask(server.storage_path, "status")["vhosts"] == 1


def test_a_connection_beyond_the_limit_replaces_the_longest_idle_one(
    storage_path: Path,
) -> None:
    with ExitStack() as open_ones:
        idle = [open_ones.enter_context(talk(storage_path)) for _ in range(CONNECTIONS_MAX)]
        for client in [*idle[1:], idle[0]]:
            client.send(LIST)
            client.reply()

        with talk(storage_path) as one_more:
            one_more.send(LIST)
            assert "ok" in one_more.reply()
        assert idle[1].reply()["error"] == "limit_reached"
        idle[1].expect_end()
        for client in (idle[0], idle[2], idle[-1]):
            client.send(LIST)
            assert "ok" in client.reply()


def test_a_request_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work, may_end = Semaphore(0), asyncio.Event()
    run = registry.run_request

    async def run_when_it_may(*arguments: Any) -> object:  # noqa: ANN401
        at_work.release()
        await may_end.wait()
        return await run(*arguments)

    monkeypatch.setattr(listener, "run_request", run_when_it_may)
    with ThreadedServer(tmp_path) as server, ExitStack() as open_ones:
        busy = [open_ones.enter_context(talk(tmp_path)) for _ in range(CONNECTIONS_MAX)]
        for client in busy:
            client.send(LIST)
            assert at_work.acquire(timeout=HANG_SECONDS)

        with talk(tmp_path) as one_more:
            assert one_more.reply()["error"] == "limit_reached"
            one_more.expect_end()
        server.call(may_end.set)
        for client in busy:
            assert "ok" in client.reply()


def test_a_connection_without_requests_is_closed_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "IDLE_SECONDS_MAX", 0.05)
    with ThreadedServer(tmp_path), talk(tmp_path) as client:
        client.send(b'{"command":"sta')
        assert client.reply() == {
            "error": "limit_reached",
            "reason": "no request came for 0 s",
        }
        client.expect_end()


def test_a_stop_does_not_wait_for_an_idle_client(server: RunningServer) -> None:
    with talk(server.storage_path) as client:
        assert server.terminate() == 0
        client.expect_end()


def test_a_directory_without_a_server_and_a_forbidden_one_get_different_errors(
    tmp_path: Path,
) -> None:
    with pytest.raises(UnreachableError, match="no server is running on the data directory"):
        ask(tmp_path / "nowhere", "status")
    (tmp_path / "file").touch()
    with pytest.raises(UnreachableError, match="no server is running on the data directory"):
        ask(tmp_path / "file", "status")


def test_a_server_that_ends_before_its_reply_is_reported(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control.sock"))
        listener.listen()
        # The kernel accepts it; it is closed because the server does not.
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(tmp_path / "control.sock"))
        client.close()
    with pytest.raises(UnreachableError, match="no server is running"):
        ask(tmp_path, "status")


def test_status_counts_connections_queues_and_messages(storage_path: Path) -> None:
    found = ask(storage_path, "status")
    counts = {"connections": 0, "channels": 0, "queues": 0, "messages_ready": 0, "vhosts": 1}
    assert {name: found[name] for name in counts} == counts
    assert found["product"] == "amqp-server"
    assert found["uptime_seconds"] >= 0
