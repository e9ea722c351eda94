"""What a real server writes into its audit log, and what it never writes."""

from __future__ import annotations

import json
import os
import pwd
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Connection, Exchange, Queue

from amqp_server.access.passwords import PasswordHash
from amqp_server.audit.reading import AuditReader
from amqp_server.control.client import ask
from amqp_server.control.protocol import ControlError
from cli.main import main
from tests.amqp_client import AmqpClient, AnyDeclare, connect
from tests.conftest import StartServer
from tests.servers import RunningServer

ME = f"os:{os.getuid()}/{pwd.getpwuid(os.getuid()).pw_name}"
MARKER = "s3cret-marker-of-this-test"


def events(server: RunningServer, *names: str) -> list[dict[str, Any]]:
    """Stop the server, and return its events, or those of some names."""
    if server.is_running:
        assert server.terminate() == 0
    found = list(AuditReader(server.storage_path).new_events())
    return [event for event in found if not names or event["event"] in names]


def local_address(client: AmqpClient) -> str:
    host, port = client.socket.getsockname()
    return f"{host}:{port}"


def test_a_life_of_a_client_from_login_to_close(server: RunningServer) -> None:
    with connect(server.address) as client:
        peer = local_address(client)
        client.close()
    accepted, created, closed = events(
        server, "user.authentication.success", "connection.created", "connection.closed"
    )
    for event in (accepted, created, closed):
        assert (event["user"], event["peer"]) == ("guest", peer)
    assert created["vhost"] == "/"
    assert closed["details"] == {"reason": "closed by the client"}


def test_objects_are_recorded_when_they_are_new_and_when_they_go(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        for _ in range(2):
            client.call(
                Queue.Declare(queue="q", durable=True, arguments={"x-max-length": 5}),
                Queue.DeclareOk,
            )
            client.call(Exchange.Declare(exchange="x", exchange_type="topic"), Exchange.DeclareOk)
            client.call(Queue.Bind(queue="q", exchange="x", routing_key="k.*"), Queue.BindOk)
        client.publish(b"1", "q")
        client.publish(b"2", "q")
        client.call(Queue.Purge(queue="q"), Queue.PurgeOk)
        client.publish(b"3", "q")
        for _ in range(2):
            client.call(Queue.Unbind(queue="q", exchange="x", routing_key="k.*"), Queue.UnbindOk)
            client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
            client.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)
        peer = local_address(client)
    found = [event for event in events(server) if event.get("object") in ("q", "x")]
    assert [(event["event"], event["object"]) for event in found] == [
        ("queue.created", "q"),
        ("exchange.created", "x"),
        ("binding.created", "q"),
        ("queue.purged", "q"),
        ("binding.deleted", "q"),
        ("queue.deleted", "q"),
        ("exchange.deleted", "x"),
    ]
    for event in found:
        assert (event["user"], event["peer"], event["vhost"]) == ("guest", peer, "/")
    details = {event["event"]: event["details"] for event in found if "details" in event}
    assert details["queue.created"] == {
        "durable": True,
        "exclusive": False,
        "auto_delete": False,
        "arguments": {"x-max-length": 5},
    }
    assert details["exchange.created"]["type"] == "topic"
    assert details["binding.created"] == {
        "source": "x",
        "destination_type": "queue",
        "routing_key": "k.*",
        "arguments": {},
    }
    assert details["queue.purged"] == {"messages": 2}
    assert details["queue.deleted"] == {"messages": 1}


def test_limits_and_levels_that_an_operator_sets_are_recorded(server: RunningServer) -> None:
    settings: list[tuple[str, dict[str, Any]]] = [
        ("set_memory_limit", {"watermark": "0.5"}),
        ("set_disk_limit", {"bytes_min": 2_000_000}),
        ("set_log_level", {"level": "warning"}),
    ]
    for command, arguments in settings:
        ask(server.storage_path, f"settings.{command}", **arguments)
    found = events(server, "setting.changed")
    assert [(event["user"], event["details"]) for event in found] == [
        (ME, arguments) for _, arguments in settings
    ]


def test_what_the_server_removes_by_itself_says_why(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="own", exclusive=True), Queue.DeclareOk)
        client.call(Queue.Declare(queue="auto", auto_delete=True), Queue.DeclareOk)
        client.call(
            Exchange.Declare(exchange="x", exchange_type="fanout", auto_delete=True),
            Exchange.DeclareOk,
        )
        client.call(Queue.Bind(queue="auto", exchange="x", routing_key=""), Queue.BindOk)
        client.call(Basic.Consume(queue="auto", consumer_tag="c"), Basic.ConsumeOk)
        client.call(Basic.Cancel(consumer_tag="c"), Basic.CancelOk)
        client.close()
    gone = events(server, "queue.deleted", "exchange.deleted")
    assert {event["object"]: (event["user"], event["details"]["reason"]) for event in gone} == {
        "auto": ("", "auto-delete"),
        "x": ("", "auto-delete"),
        "own": ("", "its connection has ended"),
    }


def test_commands_are_recorded_with_the_user_of_the_system(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q", durable=True), Queue.DeclareOk)
        client.publish(b"m", "q")
    path = server.storage_path
    ask(path, "vhosts.add", name="v\n1")
    ask(path, "vhosts.delete", name="v\n1")
    ask(path, "shards.create", exchange="s", shards=2, vhost="/", arguments={})
    browse = {"vhost": "/", "queue": "q", "start": "first", "until": "", "state": ""}
    ask(path, "queues.browse", **browse, filters=[], limit=1, body_bytes=0)
    replay = {"vhost": "/", "queue": "q", "start": "first", "until": "", "to": ""}
    ask(path, "queues.replay", **replay, filters=[], include="settled", dry_run=True)
    ask(path, "vhosts.list")
    ask(path, "status")

    found = [event for event in events(server) if event["user"] == ME]
    assert [(event["event"], event["object"]) for event in found] == [
        ("vhost.created", "v\n1"),
        ("permission.created", "guest"),
        ("vhost.deleted", "v\n1"),
        ("exchange.created", "s"),
        ("queue.created", "s-0"),
        ("queue.created", "s-1"),
        ("binding.created", "s-0"),
        ("binding.created", "s-1"),
        ("queue.browsed", "q"),
        ("queue.replayed", "q"),
    ]
    assert found[-1]["details"]["dry_run"] is True


def test_pages_of_one_browse_are_one_event(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q", durable=True), Queue.DeclareOk)
    arguments = {"vhost": "/", "queue": "q", "start": "first", "until": "", "state": ""}
    request = {
        "version": 1,
        "command": "queues.browse",
        "arguments": {**arguments, "filters": [], "limit": 1, "body_bytes": 0},
    }
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(server.storage_path / "control.sock"))
        replies = control.makefile("rb")
        for _ in range(3):
            control.sendall(json.dumps(request).encode() + b"\n")
            assert b"ok" in replies.readline()
        replies.close()
    assert len(events(server, "queue.browsed")) == 1


def test_a_refused_command_says_so(server: RunningServer) -> None:
    replay = {"vhost": "/", "queue": "none", "start": "first", "until": "", "to": ""}
    with pytest.raises(ControlError):
        ask(
            server.storage_path,
            "queues.replay",
            **replay,
            filters=[],
            include="settled",
            dry_run=False,
        )
    (event,) = events(server, "queue.replayed")
    assert (event["object"], event["details"]["error"]) == ("none", "not_found")


def refused_login(server: RunningServer, user: str, password: str) -> None:
    with AmqpClient(server.address) as client:
        client.start(user=user, password=password)
        client.expect_connection_close(403)


def test_guessed_passwords_become_a_sum(server: RunningServer) -> None:
    for number in range(20):
        refused_login(server, f"user{number}", "wrong")
    found = events(server, "user.authentication.failure")
    assert found[0]["user"] == "user0"
    assert found[0]["details"] == {"reason": "unknown user or wrong password"}
    assert found[0]["peer"].startswith("127.0.0.1:")
    assert sum(event["details"].get("count", 1) for event in found) == 20
    assert len(found) < 10


def test_no_password_is_anywhere(server: RunningServer) -> None:
    refused_login(server, "guest", MARKER)
    refused_login(server, MARKER[::-1], MARKER)
    with connect(server.address) as client:
        client.open_channel()
    command_line = Path(f"/proc/{server.pid}/cmdline").read_bytes()
    assert MARKER.encode() not in command_line
    assert events(server, "user.authentication.failure")
    files = [path for path in server.storage_path.rglob("*") if path.is_file()]
    assert any(path.name.startswith("sessions-") for path in files)
    for path in files:
        assert MARKER.encode() not in path.read_bytes(), path
    assert MARKER not in "".join(server.messages)
    # The search would have found it: the user name is there.
    assert any(MARKER[::-1].encode() in path.read_bytes() for path in files)


def test_hostile_names_are_one_line_each(server: RunningServer) -> None:
    names = ['"}{\t', "\x00\x1b[2J", "ä" * 127, "n" * 255, "\u2028\x85"]
    with connect(server.address) as client:
        client.open_channel()
        for name in names:
            client.call(AnyDeclare(queue=name), Queue.DeclareOk)
    found = events(server, "queue.created")
    assert [event["object"] for event in found] == names
    octets = (server.storage_path / "audit" / "changes-00000001.jsonl").read_bytes()
    assert octets.isascii()
    assert len(octets.splitlines()) == len(names) + 2  # the start and the stop of the server


def test_a_killed_server_leaves_its_events(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q", durable=True), Queue.DeclareOk)
        path = server.storage_path / "audit" / "changes-00000001.jsonl"
        reader = AuditReader(server.storage_path)
        while "q" not in [event.get("object") for event in reader.new_events()]:
            assert server.is_running
        server.kill()
    with path.open("ab") as file:
        file.write(b'{"time":"20')
    server.restart()
    names = [event["event"] for event in events(server) if event["user"] == ""]
    assert names.count("server.started") == 2
    assert names.count("server.stopped") == 1


def test_it_can_be_switched_off(start_server: StartServer) -> None:
    server = start_server("--audit-files", "0")
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q"), Queue.DeclareOk)
    assert server.terminate() == 0
    assert not (server.storage_path / "audit").exists()
    assert main(["audit", "--storage-path", str(server.storage_path)]) == 2


def test_the_files_are_private_and_bounded(start_server: StartServer) -> None:
    server = start_server("--audit-files", "2", "--audit-file-size", "64KiB")
    with connect(server.address) as client:
        client.open_channel()
        for number in range(2000):
            client.send(Queue.Declare(queue=f"q{number}", nowait=True))
        client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
    created = events(server, "queue.created")
    assert created[-1]["object"] == "q1999"
    assert len(created) < 2000
    paths = sorted((server.storage_path / "audit").glob("changes-*"))
    assert len(paths) == 2
    for path in paths:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.stat().st_size < 80_000


def test_a_directory_that_cannot_be_written_harms_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with RunningServer(data).start() as first:
        assert first.terminate() == 0
    for path in (data / "audit").iterdir():
        path.unlink()
    (data / "audit").rmdir()
    (data / "audit").write_text("a file")
    with RunningServer(data).start() as server:
        with connect(server.address) as client:
            client.open_channel()
            client.call(Queue.Declare(queue="q", durable=True), Queue.DeclareOk)
        assert server.terminate() == 0
        warnings = [line for line in server.messages if "audit log not written" in line]
        # One for each of the two kinds of files.
        assert len(warnings) == 2


@pytest.fixture
def shown(server: RunningServer, capsys: pytest.CaptureFixture[str], clean_path: None) -> Any:  # noqa: ANN401 - a local function
    with connect(server.address) as client:
        client.open_channel()
        client.call(Queue.Declare(queue="q 1", durable=True), Queue.DeclareOk)
    ask(server.storage_path, "vhosts.add", name="v")
    assert server.terminate() == 0

    def run(*arguments: str) -> list[str]:
        assert main(["audit", "--storage-path", str(server.storage_path), *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def clean_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMQP_SERVER_STORAGE_PATH", raising=False)


def test_the_command_filters_and_shows(shown: Any) -> None:  # noqa: ANN401 - a local function
    assert len(shown()) >= 6
    (line,) = shown("--event", "queue.created")
    assert "queue.created" in line
    assert "q 1" in line
    assert "guest" in line
    assert [json.loads(each)["object"] for each in shown("--user", ME, "--json")] == [
        "v",
        "guest",
    ]
    assert len(shown("--event", "server.*")) == 2
    assert shown("--since", "2999-01-01") == []
    assert len(shown("--since", "1h")) == len(shown())
    assert len(shown("--vhost", "/", "--event", "queue.*", "--event", "vhost.*")) == 1


def test_following_shows_what_happens_next(server: RunningServer) -> None:
    command = [
        sys.executable,
        "-m",
        "cli.main",
        "audit",
        "--follow",
        "--json",
        "--event",
        "vhost.*",
    ]
    with subprocess.Popen(
        [*command, "--storage-path", str(server.storage_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as following:
        assert following.stdout is not None
        try:
            for name in ("a", "b"):
                ask(server.storage_path, "vhosts.add", name=name)
                assert json.loads(following.stdout.readline())["object"] == name
        finally:
            following.kill()


def closed_because(server: RunningServer) -> list[str]:
    return [event["details"]["reason"] for event in events(server, "connection.closed")]


def test_a_connection_says_why_it_has_ended(server: RunningServer) -> None:
    with connect(server.address) as client:
        client.close()
    with connect(server.address) as client:
        client.send(Connection.Close(320, "bye\n{}", 0, 0), 0)
        client.expect(Connection.CloseOk, 0)
    with connect(server.address) as client:
        client.open_channel()
        client.send(Channel.Open(), 1)
        client.expect_connection_close(504)
    with connect(server.address):
        pass
    ask(server.storage_path, "vhosts.add", name="v")
    with connect(server.address, vhost="v") as client:
        ask(server.storage_path, "vhosts.delete", name="v")
        client.expect_connection_close(320)
    with connect(server.address) as client:
        # The server closes it at its stop.
        reasons = closed_because(server)
    assert reasons[:3] == [
        "closed by the client",
        "closed by the client: 320 bye\n{}",
        "504 CHANNEL_ERROR - second 'channel.open' seen",
    ]
    assert sorted(reasons[3:]) == [
        "320 CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
        "320 CONNECTION_FORCED - vhost 'v' is deleted",
        "closed by peer",
    ]


def test_users_and_permissions_are_recorded_without_their_passwords(
    server: RunningServer,
) -> None:
    stored = PasswordHash.quick(MARKER.encode())
    path = server.storage_path
    password = {"password_hash": stored.text, "hashing_algorithm": stored.algorithm}
    ask(path, "users.add", name="u", **password, tags=["t"])
    ask(path, "users.change_password", name="u", **password)
    ask(path, "users.set_tags", name="u", tags=[])
    rights = {"configure": "c", "write": "w", "read": "r"}
    ask(path, "permissions.set", user="u", vhost="/", **rights)
    topic = {"user": "u", "vhost": "/", "exchange": "amq.topic"}
    ask(path, "topic_permissions.set", **topic, write="w", read="r")
    ask(path, "topic_permissions.clear", **topic)
    ask(path, "permissions.clear", user="u", vhost="/")
    ask(path, "users.delete", name="u")
    found = [event for event in events(server) if event["user"] == ME]
    assert [(event["event"], event["object"], event.get("vhost")) for event in found] == [
        ("user.created", "u", None),
        ("user.password.changed", "u", None),
        ("user.tags.set", "u", None),
        ("permission.created", "u", "/"),
        ("topic.permission.created", "u", "/"),
        ("topic.permission.deleted", "u", "/"),
        ("permission.deleted", "u", "/"),
        ("user.deleted", "u", None),
    ]
    assert found[3]["details"] == rights
    for written in (path / "audit").iterdir():
        assert MARKER not in written.read_text()
        assert stored.text not in written.read_text()


def test_behind_a_proxy_the_peer_is_the_client(start_server: StartServer) -> None:
    server = start_server("--proxy-protocol-trusted", "127.0.0.1/32", "--guest-from-anywhere")
    with AmqpClient(server.address) as client:
        client.send_raw(b"PROXY TCP4 203.0.113.7 127.0.0.1 4711 5672\r\n")
        client.open()
    (created,) = events(server, "connection.created")
    assert created["peer"] == "203.0.113.7:4711"


def test_policies_are_recorded(server: RunningServer) -> None:
    policy = {"pattern": "^q", "apply_to": "queues", "priority": 1}
    values = {"vhost": "/", "name": "p", **policy, "definition": {"max-length": 5}}
    ask(server.storage_path, "policies.set", **values)
    ask(server.storage_path, "operator_policies.set", **values)
    ask(server.storage_path, "policies.clear", vhost="/", name="p")
    found = events(server, "policy.set", "operator_policy.set", "policy.cleared")
    assert [(event["event"], event["user"], event["object"]) for event in found] == [
        ("policy.set", ME, "p"),
        ("operator_policy.set", ME, "p"),
        ("policy.cleared", ME, "p"),
    ]
    assert found[0]["details"] == {
        "pattern": "^q",
        "apply-to": "queues",
        "definition": {"max-length": 5},
        "priority": 1,
    }
