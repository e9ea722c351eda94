"""Limits of virtual hosts and users on a real server: kept, counted, set by commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Channel, Connection, Queue

from amqp_server.access.passwords import PasswordHash
from amqp_server.audit.reading import AuditReader
from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError, ErrorKind
from cli.main import main
from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

HOSTILE = "v\n1 \x1b[2J"


def set_limits(server: RunningServer, kind: str, name: str, **limits: int) -> dict[str, Any]:
    values = {each.replace("_", "-"): limit for each, limit in limits.items()}
    done = ask(
        server.storage_path, "limits.set", kind=kind, name=name, limits=values, replace=False
    )
    assert isinstance(done, dict)
    return done


def add_user(server: RunningServer, name: str) -> None:
    stored = PasswordHash.quick(b"secret")
    ask(
        server.storage_path,
        "users.add",
        name=name,
        password_hash=stored.text,
        hashing_algorithm=stored.algorithm,
        tags=[],
    )
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    ask(server.storage_path, "permissions.set", user=name, vhost="/", **rights)


def listed(server: RunningServer) -> dict[str, Any]:
    found = ask(server.storage_path, "limits.list")
    assert isinstance(found, dict)
    return found


def test_the_highest_limit_is_that_of_32_bits(server: RunningServer) -> None:
    ask(server.storage_path, "vhosts.add", name="v")
    set_limits(server, "vhost", "v", max_queues=2_147_483_647)
    with pytest.raises(ControlError, match="must be a whole number from -1 to 2147483647"):
        set_limits(server, "vhost", "v", max_queues=2_147_483_648)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_limits_survive_the_end_of_the_server(server: RunningServer, end: str) -> None:
    ask(server.storage_path, "vhosts.add", name=HOSTILE)
    add_user(server, HOSTILE)
    set_limits(server, "vhost", HOSTILE, max_connections=3, max_queues=7)
    set_limits(server, "user", HOSTILE, max_connections=2, max_channels=5)
    before = listed(server)
    assert before == {
        "vhosts": [
            {
                "name": HOSTILE,
                "limits": {"max-connections": 3, "max-queues": 7},
                "connections": 0,
                "queues": 0,
            }
        ],
        "users": [
            {
                "name": HOSTILE,
                "limits": {"max-connections": 2, "max-channels": 5},
                "connections": 0,
                "channels": 0,
            }
        ],
    }
    if end == "kill":
        server.kill()
    else:
        assert server.terminate() == 0
    server.restart()
    assert listed(server) == before
    ask(server.storage_path, "limits.clear", kind="vhost", name=HOSTILE, limits=[])
    ask(server.storage_path, "limits.clear", kind="user", name=HOSTILE, limits=["max-channels"])
    server.kill()
    server.restart()
    assert listed(server)["vhosts"] == []
    assert listed(server)["users"][0]["limits"] == {"max-connections": 2}


def test_a_new_vhost_of_the_same_name_has_no_limits(server: RunningServer) -> None:
    ask(server.storage_path, "vhosts.add", name="v")
    set_limits(server, "vhost", "v", max_queues=0)
    ask(server.storage_path, "vhosts.delete", name="v")
    ask(server.storage_path, "vhosts.add", name="v")
    assert listed(server)["vhosts"] == []
    server.kill()
    server.restart()
    assert listed(server)["vhosts"] == []


def test_recovered_queues_are_above_the_limit_and_stay(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        for name in ("a", "b"):
            client.call(Queue.Declare(queue=name, durable=True), Queue.DeclareOk)
    set_limits(server, "vhost", "/", max_queues=1)
    server.kill()
    server.restart()
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="a", durable=True), Queue.DeclareOk)
        client.call(Queue.Declare(queue="b", durable=True), Queue.DeclareOk)
        client.send(Queue.Declare(queue="c", durable=True))
        client.expect_channel_close(406)


@pytest.mark.parametrize(
    "body", [b"{", b'{"max-queues": 0}', b"", b'{"schema": 2, "kind": "vhost_limits"}']
)
def test_a_damaged_document_of_limits_stops_no_start(server: RunningServer, body: bytes) -> None:
    set_limits(server, "vhost", "/", max_queues=0)
    assert server.terminate() == 0
    (path,) = (server.storage_path / "metadata" / "vhost_limits").rglob("*.json")
    path.write_bytes(body)
    server.may_fail = True
    server.restart()
    assert listed(server)["vhosts"] == []
    assert any(str(path) in line for line in server.faults)
    set_limits(server, "vhost", "/", max_queues=3)
    assert server.terminate() == 0
    server.restart()
    assert listed(server)["vhosts"][0]["limits"] == {"max-queues": 3}


def test_shards_keep_to_the_limit_of_queues(server: RunningServer) -> None:
    set_limits(server, "vhost", "/", max_queues=2)
    with pytest.raises(ControlError) as refused:
        ask(server.storage_path, "shards.create", exchange="s", shards=3, vhost="/", arguments={})
    assert refused.value.kind == ErrorKind.LIMIT_REACHED
    ask(server.storage_path, "shards.create", exchange="s", shards=2, vhost="/", arguments={})


def test_the_counts_are_right_however_a_connection_ends(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server:
        limits = server.server.context.connection_limits
        vhost = server.server.broker.vhosts["/"]

        def counts() -> tuple[int, int, int]:
            return (
                vhost.connection_count,
                limits.connections_of_user("guest"),
                limits.channels_of_user("guest"),
            )

        def open_client() -> AmqpClient:
            client = connect(server.address)
            client.open_channel(1)
            client.open_channel(2)
            return client

        politely, abruptly, wrongly, staying = (open_client() for _ in range(4))
        assert server.call(counts) == (4, 4, 8)
        politely.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, 2)
        staying.send(Queue.Declare(queue="none", passive=True), 1)
        staying.expect_channel_close(404, 1)
        assert server.call(counts) == (4, 4, 6)
        politely.close()
        assert server.call(counts) == (3, 3, 5)
        wrongly.send(Channel.Open(), 1)
        wrongly.expect_connection_close(504)
        assert server.call(counts) == (2, 2, 3)
        abruptly.socket.close()
        server.wait_until(lambda: counts() == (1, 1, 1))
        # One that does not get in is not counted.
        with AmqpClient(server.address) as refused:
            tune = refused.login()
            refused.send(Connection.TuneOk(tune.channel_max, tune.frame_max, 0), 0)
            refused.send(Connection.Open(virtual_host="none"), 0)
            refused.expect_connection_close(530)
        assert server.call(counts) == (1, 1, 1)
        staying.close()
        assert server.call(counts) == (0, 0, 0)


def test_a_client_that_reconnects_at_once_finds_its_place_free(server: RunningServer) -> None:
    set_limits(server, "user", "guest", max_connections=1, max_channels=1)
    for _ in range(20):
        with connect(server.address) as client:
            client.open_channel()
            client.close()


def test_wrong_limits_are_refused_and_change_nothing(server: RunningServer) -> None:
    def refuse(kind: str, name: str, **limits: object) -> ErrorKind:
        with pytest.raises(ControlError) as refused:
            ask(
                server.storage_path,
                "limits.set",
                kind=kind,
                name=name,
                limits={each.replace("_", "-"): value for each, value in limits.items()},
                replace=False,
            )
        return refused.value.kind

    for kind, name in (("vhost", "/"), ("user", "guest")):
        for value in ("x", 1.5, True, None, -2, 1 << 80):
            assert refuse(kind, name, max_connections=value) == ErrorKind.INVALID_ARGUMENT
        assert refuse(kind, name, max_foo=1) == ErrorKind.INVALID_ARGUMENT
        assert refuse(kind, "none", max_connections=1) == ErrorKind.NOT_FOUND
    assert refuse("queue", "/", max_connections=1) == ErrorKind.INVALID_ARGUMENT
    assert listed(server) == {"vhosts": [], "users": []}


def test_changes_of_limits_are_audited(server: RunningServer) -> None:
    set_limits(server, "vhost", "/", max_queues=5)
    ask(server.storage_path, "limits.clear", kind="vhost", name="/", limits=[])
    set_limits(server, "user", "guest", max_channels=5)
    ask(server.storage_path, "limits.clear", kind="user", name="guest", limits=[])
    assert server.terminate() == 0
    found = [event for event in AuditReader(server.storage_path).new_events() if event["user"]]
    assert [(event["event"], event["object"], event.get("details")) for event in found] == [
        ("vhost.limits.set", "/", {"max-queues": 5}),
        ("vhost.limits.cleared", "/", None),
        ("user.limits.set", "guest", {"max-channels": 5}),
        ("user.limits.cleared", "guest", None),
    ]


@pytest.fixture
def storage(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMQP_SERVER_STORAGE_PATH", str(server.storage_path))


@pytest.mark.usefixtures("storage")
def test_the_command_says_what_it_changed(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> list[str]:
        assert main(["limits", *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    assert run("set", "--vhost", "/", "max-queues=100", "max-connections=5") == [
        "vhost '/': max-connections no limit -> 5",
        "vhost '/': max-queues no limit -> 100",
    ]
    assert run("set", "--vhost", "/", "max-queues=7") == ["vhost '/': max-queues 100 -> 7"]
    assert run("set", "--vhost", "/", "max-queues=7") == ["vhost '/': nothing to change"]
    assert run("set", "--user", "guest", "max-channels=9") == [
        "user 'guest': max-channels no limit -> 9"
    ]
    assert run("list") == [
        "      LIMIT        USED  WHAT             OF",
        "          5           0  max-connections  vhost '/'",
        "          7           0  max-queues       vhost '/'",
        "          9           0  max-channels     user 'guest'",
    ]
    assert json.loads("\n".join(run("list", "--json")))["users"][0]["name"] == "guest"
    assert run("clear", "--vhost", "/", "max-queues") == ["vhost '/': max-queues 7 -> no limit"]
    assert run("clear", "--vhost", "/") == ["vhost '/': max-connections 5 -> no limit"]
    assert run("clear", "--vhost", "/") == ["vhost '/': nothing to change"]


@pytest.mark.usefixtures("storage")
def test_the_command_refuses_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(code: int, *arguments: str) -> str:
        assert main(["limits", *arguments]) == code
        written = capsys.readouterr()
        assert (written.out, written.err.count("\n")) == ("", 1)
        return written.err

    assert "write what to do" in refuse(2)
    assert "either --vhost NAME or --user NAME" in refuse(2, "set", "max-queues=1")
    assert "either" in refuse(2, "clear", "--vhost", "/", "--user", "guest")
    assert "is no limit" in refuse(2, "set", "--vhost", "/", "max-queues")
    assert "known are" in refuse(1, "set", "--vhost", "/", "max-foo=1")
    assert "does not exist" in refuse(1, "set", "--user", "none", "max-channels=1")
