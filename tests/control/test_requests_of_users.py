"""Requests that name a user have this user's rights, and the audit log shows the user."""

import socket
from pathlib import Path
from typing import Any

import orjson
import pytest

from amqp_server.audit.reading import AuditReader
from tests.control.asking import PEER, Asking
from tests.threaded_server import ThreadedServer

QUEUE = {"vhost": "/", "name": "q"}
DECLARE = {**QUEUE, "durable": True, "auto_delete": False, "arguments": {}}
EXCHANGE = {"vhost": "/", "name": "x"}
DECLARE_EXCHANGE: dict[str, Any] = {
    **EXCHANGE,
    "type": "direct",
    "durable": True,
    "auto_delete": False,
    "internal": False,
    "arguments": {},
}
BINDING = {"vhost": "/", "source": "x", "destination": "q", "destination_type": "queue"}
PUBLISH = {"vhost": "/", "routing_key": "q", "properties": {}, "body": ""}


def test_the_audit_log_shows_the_user_with_its_peer_and_then_the_command_again(
    tmp_path: Path,
) -> None:
    storage_path = tmp_path / "data"
    with ThreadedServer(storage_path):
        asking = Asking(storage_path)
        alice = asking.add_user("alice", ".*", ".*", ".*")
        alice.declare("of-alice")
        alice.ask("vhosts.add", name="v-alice")
        alice.declare_exchange("x-alice")
        asking.declare("of-nobody")
    by_object = {
        event.get("object"): (event["user"], event.get("peer"))
        for event in AuditReader(storage_path).new_events()
        if event["event"].endswith(".created")
    }
    for name in ("of-alice", "v-alice", "x-alice"):
        assert by_object[name] == ("alice", PEER)
    assert by_object["of-nobody"][0].startswith("os:")
    assert by_object["of-nobody"][1] is None


def test_the_actor_of_one_request_does_not_last_to_the_next_on_the_same_connection(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    asking.add_user("nobody", "^$", "^$", "^$")
    path = threaded_server.server.config.storage_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        replies = connection.makefile("rb")
        answers = []
        for actor in ({"user": "nobody", "peer": ""}, None):
            request = {"command": "queues.declare", "arguments": DECLARE, "actor": actor}
            connection.sendall(orjson.dumps(request) + b"\n")
            answers.append(orjson.loads(replies.readline()))
        replies.close()
    assert answers[0]["error"] == "refused"
    assert answers[1]["ok"]["created"] is True


@pytest.mark.parametrize(
    "actor",
    [
        7,
        "alice",
        {},
        {"user": "a"},
        {"user": "", "peer": ""},
        {"user": 7, "peer": ""},
        {"user": "a", "peer": "", "tags": []},
    ],
)
def test_an_actor_of_another_form_is_refused(
    threaded_server: ThreadedServer, actor: object
) -> None:
    path = threaded_server.server.config.storage_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(orjson.dumps({"command": "vhosts.list", "actor": actor}) + b"\n")
        replies = connection.makefile("rb")
        answer = orjson.loads(replies.readline())
        replies.close()
    assert (answer["error"], '"actor"' in answer["reason"]) == ("bad_request", True)


@pytest.mark.parametrize(
    ("missing", "command", "arguments", "what"),
    [
        ("configure", "queues.declare", DECLARE, "queue 'q'"),
        (
            "configure",
            "queues.delete",
            {**QUEUE, "if_empty": False, "if_unused": False},
            "queue 'q'",
        ),
        ("read", "queues.purge", QUEUE, "queue 'q'"),
        ("configure", "exchanges.declare", DECLARE_EXCHANGE, "exchange 'x'"),
        ("configure", "exchanges.delete", {**EXCHANGE, "if_unused": False}, "exchange 'x'"),
        ("write", "bindings.add", {**BINDING, "routing_key": "k", "arguments": {}}, "queue 'q'"),
        ("read", "bindings.add", {**BINDING, "routing_key": "k", "arguments": {}}, "exchange 'x'"),
        ("write", "bindings.delete", {**BINDING, "properties_key": "bound"}, "queue 'q'"),
        ("read", "bindings.delete", {**BINDING, "properties_key": "bound"}, "exchange 'x'"),
        ("write", "messages.publish", {**PUBLISH, "exchange": "x"}, "exchange 'x'"),
        ("write", "messages.publish", {**PUBLISH, "exchange": ""}, "exchange 'amq.default'"),
        (
            "read",
            "messages.get",
            {"vhost": "/", "queue": "q", "count": 1, "ack_mode": "ack_requeue_false"}
            | {"body_bytes": -1},
            "queue 'q'",
        ),
    ],
)
def test_each_command_needs_the_permission_of_its_method(
    asking: Asking, missing: str, command: str, arguments: dict[str, Any], what: str
) -> None:
    asking.declare_exchange("x", "direct")
    asking.declare("q")
    bound = {**BINDING, "routing_key": "bound", "arguments": {}}
    asking.ask("bindings.add", **bound)
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    user = asking.add_user("u", **{**rights, missing: "^other$"})

    text = user.refused_text(403, command, **arguments)

    assert text == (
        f"ACCESS_REFUSED - {missing} access to {what} in vhost '/' refused for user 'u'"
    )
    # Nothing has changed, and with the permission it works.
    rows = asking.listed("bindings.list", "bindings", vhost="/")
    assert [row["destination"] for row in rows] == ["q", "q"]
    asking.ask("permissions.set", vhost="/", user="u", **rights)
    user.ask(command, **arguments)


def test_topic_permissions_count_for_publishes_and_bindings(asking: Asking) -> None:
    asking.declare_exchange("t")
    asking.declare("q")
    user = asking.add_user("u", ".*", ".*", ".*")
    row = {"vhost": "/", "user": "u", "exchange": "t"}
    asking.ask("topic_permissions.set", **row, write="^a", read="^a")
    publish = {"vhost": "/", "exchange": "t", "properties": {}, "body": ""}
    bind = {"vhost": "/", "source": "t", "destination": "q", "destination_type": "queue"}

    assert user.ask("messages.publish", **publish, routing_key="a.b")["routed"] is False
    for command, arguments, right in (
        ("messages.publish", {**publish, "routing_key": "b"}, "write"),
        ("bindings.add", {**bind, "routing_key": "b", "arguments": {}}, "read"),
    ):
        assert user.refused_text(403, command, **arguments) == (
            f"ACCESS_REFUSED - {right} access to topic 'b' in exchange 't' in vhost '/' refused "
            "for user 'u'"
        )


def test_a_user_without_permission_in_the_virtual_host_or_who_is_gone_is_refused(
    asking: Asking,
) -> None:
    asking.ask("users.set", name="u", tags=["administrator"])
    asking.ask("vhosts.add", name="v")
    for user in ("u", "gone"):
        assert asking.of(user).refused_text(530, "queues.declare", **DECLARE) == (
            f"NOT_ALLOWED - access to vhost '/' refused for user '{user}'"
        )
    missing = asking.of("u").refusal("queues.declare", **{**DECLARE, "vhost": "nowhere"})
    assert (missing.kind, missing.reason) == ("not_found", "vhost 'nowhere' does not exist")


def test_a_message_may_name_its_user_only(asking: Asking) -> None:
    asking.declare("q")
    user = asking.add_user("u", ".*", ".*", ".*")
    own = {**PUBLISH, "exchange": "", "properties": {"user_id": "u"}}
    assert user.ask("messages.publish", **own)["routed"] is True
    other = {**own, "properties": {"user_id": "guest"}}
    assert user.refused_text(406, "messages.publish", **other) == (
        "PRECONDITION_FAILED - user_id property set to 'guest' but authenticated user was 'u'"
    )


def test_each_user_who_reads_a_queue_is_recorded(tmp_path: Path) -> None:
    storage_path = tmp_path / "data"
    browse: dict[str, object] = {"vhost": "/", "queue": "q", "start": "earliest", "until": ""}
    browse |= {"state": "", "filters": [], "limit": 1, "body_bytes": -1}
    with ThreadedServer(storage_path):
        asking = Asking(storage_path)
        asking.declare("q")
        for name in ("alice", "bob"):
            asking.add_user(name, "", "", ".*")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(storage_path / "control.sock"))
            replies = connection.makefile("rb")
            for user in ("alice", "alice", "bob"):
                request = {"command": "queues.browse", "arguments": browse}
                request["actor"] = {"user": user, "peer": PEER}
                connection.sendall(orjson.dumps(request) + b"\n")
                assert "ok" in orjson.loads(replies.readline())
            replies.close()
    events = AuditReader(storage_path).new_events()
    assert [each["user"] for each in events if each["event"] == "queue.browsed"] == [
        "alice",
        "bob",
    ]


def test_two_requests_may_create_the_same_thing_at_once(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    path = threaded_server.server.config.storage_path / "control.sock"
    requests = [("vhosts.set", {"name": "v"}), ("users.set", {"name": "u", "tags": []})]
    for command, arguments in requests:
        connections = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for connection in connections:
            connection.connect(str(path))
        for connection in connections:
            request = {"command": command, "arguments": arguments}
            connection.sendall(orjson.dumps(request) + b"\n")
        answers = []
        for connection in connections:
            with connection, connection.makefile("rb") as replies:
                answers.append(orjson.loads(replies.readline()))
        assert sorted(answer["ok"]["created"] for answer in answers) == [False] * 3 + [True]
