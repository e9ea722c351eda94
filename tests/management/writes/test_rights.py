"""Who may write what by HTTP: the tag of the user, and the permission that AMQP demands."""

from typing import Any

import pytest

from amqp_server.audit.reading import AuditReader
from tests.management.conftest import ManagementServer

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
V = "%2F"


def add_user(server: ManagementServer, name: str, tags: str, **rights: str) -> None:
    assert server.put(f"/api/users/{name}", {"password": name, "tags": tags}).status in (201, 204)
    if rights:
        reply = server.put(f"/api/permissions/{V}/{name}", {**ALL, **rights})
        assert reply.status in (201, 204)


MESSAGE = {"routing_key": "rq", "properties": {}, "payload": "x", "payload_encoding": "string"}
GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}


@pytest.mark.parametrize(
    ("missing", "method", "path", "body"),
    [
        ("configure", "PUT", f"/api/queues/{V}/new", {}),
        ("configure", "DELETE", f"/api/queues/{V}/rq", None),
        ("configure", "PUT", f"/api/exchanges/{V}/new", {}),
        ("configure", "DELETE", f"/api/exchanges/{V}/rx", None),
        ("read", "DELETE", f"/api/queues/{V}/rq/contents", None),
        ("write", "POST", f"/api/bindings/{V}/e/rx/q/rq", {}),
        ("read", "POST", f"/api/bindings/{V}/e/rx/q/rq", {}),
        ("write", "DELETE", f"/api/bindings/{V}/e/rx/q/rq/bound", None),
        ("read", "DELETE", f"/api/bindings/{V}/e/rx/q/rq/bound", None),
    ],
)
def test_a_change_needs_the_permission_of_amqp(
    shared_management_server: ManagementServer,
    missing: str,
    method: str,
    path: str,
    body: dict[str, Any] | None,
) -> None:
    server = shared_management_server
    server.put(f"/api/queues/{V}/rq", {"durable": True})
    server.put(f"/api/exchanges/{V}/rx", {"durable": True})
    server.post(f"/api/bindings/{V}/e/rx/q/rq", {"routing_key": "bound"})
    for tag in ("management", "administrator"):
        add_user(server, "limited", tag, **{missing: "^other$"})
        reply = server.request(method, path, body, user="limited")
        assert (reply.status, reply.json) == (
            401,
            {"error": "not_authorised", "reason": "Access refused."},
        )
    for path in (f"/api/queues/{V}/rq", f"/api/exchanges/{V}/rx"):
        assert server.get(path).status == 200
    assert server.get(f"/api/bindings/{V}/e/rx/q/rq/bound").status == 200


def test_publish_and_get_need_their_permissions(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    server.put(f"/api/queues/{V}/rq", {"durable": True})
    add_user(server, "reader", "management", write="")
    add_user(server, "writer", "management", read="")
    publish, get = f"/api/exchanges/{V}/amq.default/publish", f"/api/queues/{V}/rq/get"
    assert server.post(publish, MESSAGE, user="writer").json == {"routed": True}
    refused = server.post(publish, MESSAGE, user="reader")
    assert (refused.status, refused.json["reason"]) == (
        400,
        "403 ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user "
        "'reader'",
    )
    (got,) = server.post(get, GET, user="reader").json
    assert got["payload"] == "x"
    refused = server.post(get, GET, user="writer")
    assert (refused.status, refused.json["reason"]) == (
        401,
        "ACCESS_REFUSED - read access to queue 'rq' in vhost '/' refused for user 'writer'",
    )


def test_an_administrator_needs_a_permission_in_the_virtual_host(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    server.put(f"/api/queues/{V}/rq", {"durable": True})
    add_user(server, "stranger", "administrator")
    for method, path, body in (
        ("POST", f"/api/exchanges/{V}/amq.default/publish", MESSAGE),
        ("POST", f"/api/queues/{V}/rq/get", GET),
        ("DELETE", f"/api/queues/{V}/rq", None),
        ("POST", f"/api/bindings/{V}/e/amq.direct/q/rq", {}),
    ):
        reply = server.request(method, path, body, user="stranger")
        assert (reply.status, reply.json["reason"]) == (401, "Access refused."), path


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("", "Not management user"),
        ("impersonator", "Not management user"),
        ("management", None),
        ("policymaker", None),
        ("monitoring", None),
    ],
)
def test_only_administrators_change_users_virtual_hosts_and_definitions(
    shared_management_server: ManagementServer, tag: str, reason: str | None
) -> None:
    server = shared_management_server
    add_user(server, "tagged", tag, read=".*")
    for method, path in (
        ("GET", "/api/users"),
        ("PUT", "/api/users/tagged"),
        ("DELETE", "/api/users/guest"),
        ("POST", "/api/users/bulk-delete"),
        ("GET", "/api/users/without-permissions"),
        ("PUT", f"/api/permissions/{V}/tagged"),
        ("DELETE", f"/api/permissions/{V}/guest"),
        ("PUT", f"/api/topic-permissions/{V}/tagged"),
        ("PUT", "/api/vhosts/mine"),
        ("DELETE", f"/api/vhosts/{V}"),
        ("POST", f"/api/vhosts/{V}/deletion/protection"),
        ("PUT", "/api/user-limits/tagged/max-connections"),
        ("PUT", f"/api/vhost-limits/{V}/max-queues"),
        ("PUT", f"/api/operator-policies/{V}/p"),
        ("PUT", "/api/cluster-name"),
        ("GET", "/api/definitions"),
        ("POST", "/api/definitions"),
        ("GET", "/api/auth/hash_password/x"),
    ):
        body: dict[str, object] | None = {} if method in ("PUT", "POST") else None
        reply = server.request(method, path, body, user="tagged")
        expected = reason or "Not administrator user"
        assert (reply.status, reply.json["reason"]) == (401, expected), path


def test_policymakers_set_policies_where_they_have_a_permission(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    server.put("/api/vhosts/theirs")
    add_user(server, "maker", "policymaker", configure="")
    add_user(server, "manager", "management", configure="")
    policy = {"pattern": "^mine", "definition": {"max-length": 5}}
    parameter = {"value": {"uri": "amqp://"}}
    for path, body in (
        (f"/api/policies/{V}/mine", policy),
        (f"/api/parameters/federation-upstream/{V}/mine", parameter),
        ("/api/global-parameters/mine", parameter),
    ):
        assert server.put(path, body, user="maker").status == 201
        reply = server.put(path, body, user="manager")
        assert (reply.status, reply.json["reason"]) == (401, "User not authorised to access object")
        assert server.delete(path, user="maker").status == 204
    reply = server.put("/api/policies/theirs/mine", policy, user="maker")
    assert (reply.status, reply.json["reason"]) == (
        401,
        "User not authorised to access virtual host",
    )
    # Operator policies and limits are the administrator's, by whatever path.
    for path, value in (
        (f"/api/parameters/operator_policy/{V}/mine", policy),
        (f"/api/parameters/vhost-limits/{V}/limits", {"max-queues": 1}),
    ):
        reply = server.put(path, {"value": value}, user="maker")
        assert (reply.status, reply.json["reason"]) == (401, "Not administrator user")
        assert server.delete(path, user="maker").status == 401
    assert server.get(f"/api/vhost-limits/{V}").json == []


def test_users_see_what_is_in_their_virtual_hosts_only(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    server.put("/api/vhosts/hidden")
    server.put("/api/queues/hidden/hq", {"durable": True})
    server.put("/api/policies/hidden/p", {"pattern": "h", "definition": {"max-length": 5}})
    server.put("/api/vhost-limits/hidden/max-queues", {"value": 7})
    add_user(server, "outsider", "policymaker", configure="")
    for path in ("/api/bindings", "/api/policies", "/api/vhost-limits", "/api/parameters"):
        rows = server.get(path, user="outsider").json
        assert "hidden" not in {row["vhost"] for row in rows}, path
        assert "hidden" in {row["vhost"] for row in server.get(path).json}, path
    for path in (
        "/api/bindings/hidden",
        "/api/policies/hidden",
        "/api/parameters/federation-upstream/hidden",
    ):
        assert server.get(path, user="outsider").status == 401, path


def test_the_audit_log_names_who_asked_by_http(management_server: ManagementServer) -> None:
    server = management_server
    add_user(server, "alice", "administrator", read=".*")
    server.put("/api/vhosts/of-alice", user="alice")
    server.put(f"/api/queues/{V}/q-alice", user="alice")
    server.post(f"/api/exchanges/{V}/amq.default/publish", MESSAGE, user="alice")
    server.get("/api/definitions", user="alice")
    server.put("/api/users/bob", {"password": "MARKER-bob", "tags": ""}, user="alice")
    assert server.server.terminate() == 0
    events = list(AuditReader(server.storage_path).new_events())
    by_alice = {event["event"] for event in events if event["user"] == "alice"}
    assert by_alice >= {
        "user.authentication.success",
        "vhost.created",
        "queue.created",
        "message.published",
        "definitions.exported",
        "user.created",
    }
    for event in events:
        if event["user"] == "alice":
            assert event["peer"].startswith("127.0.0.1")
        assert "MARKER" not in str(event)
