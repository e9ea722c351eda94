"""Bodies of writes: what RabbitMQ's record does not show."""

import base64

import pytest

from tests.management.conftest import ManagementServer

V = "%2F"
PUBLISH = f"/api/exchanges/{V}/amq.default/publish"
ALL = {"count": -1, "ackmode": "ack_requeue_false", "encoding": "auto"}


def test_a_long_payload_goes_and_comes_whole(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    server.put(f"/api/queues/{V}/long", {"durable": True})
    payload = bytes(range(256)) * 12_000
    message = {"routing_key": "long", "properties": {"delivery_mode": 2}}
    message |= {"payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}
    assert server.post(PUBLISH, message).json == {"routed": True}
    (got,) = server.post(f"/api/queues/{V}/long/get", ALL).json
    assert got["payload_encoding"] == "base64"
    assert base64.b64decode(got["payload"]) == payload
    assert got["payload_bytes"] == len(payload)


def test_a_cut_payload_that_splits_a_character_is_base64(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    server.put(f"/api/queues/{V}/cut", {"durable": True})
    message = {
        "routing_key": "cut",
        "properties": {},
        "payload": "aé",
        "payload_encoding": "string",
    }
    server.post(PUBLISH, message)
    keep = {**ALL, "ackmode": "ack_requeue_true"}
    found = [
        server.post(f"/api/queues/{V}/cut/get", {**keep, "truncate": size}).json[0]
        for size in (1, 2, 3, 50)
    ]
    assert [(each["payload"], each["payload_encoding"]) for each in found] == [
        ("a", "string"),
        ("YcM=", "base64"),
        ("aé", "string"),
        ("aé", "string"),
    ]
    assert {each["payload_bytes"] for each in found} == {3}


def test_a_protected_virtual_host_is_412(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    server.put("/api/vhosts/kept")
    assert server.post("/api/vhosts/kept/deletion/protection").status == 204
    reply = server.delete("/api/vhosts/kept")
    assert (reply.status, reply.json["error"]) == (412, "precondition_failed")
    assert server.get("/api/vhosts/kept").json["protected_from_deletion"] is True
    assert server.delete("/api/vhosts/kept/deletion/protection").status == 204
    assert server.delete("/api/vhosts/kept").status == 204
    assert server.post("/api/vhosts/gone/deletion/protection").status == 404
    assert server.get("/api/vhosts/gone").status == 404


def test_tracing_is_turned_on_and_off(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    path = "/api/vhosts/traced"
    assert server.put(path, {"tracing": True}).status == 201
    assert server.get(path).json["tracing"] is True
    for kept in ({}, {"description": "d"}, {"tracing": None}):
        assert server.put(path, kept).status == 204
        assert server.get(path).json["tracing"] is True
    assert server.put(path, {"tracing": "x"}).status == 400
    assert server.get(path).json["tracing"] is True
    assert server.put(path, {"tracing": "false"}).status == 204
    assert server.get(path).json["tracing"] is False
    assert server.delete(path).status == 204


def test_an_operator_policy_is_deleted_as_a_parameter_too(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    parameter = f"/api/parameters/operator_policy/{V}/ops"
    policy = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 0, "apply-to": "all"}
    assert server.put(parameter, {"value": policy}).status == 201
    assert server.get(f"/api/operator-policies/{V}/ops").status == 200
    assert server.delete(parameter).status == 204
    assert server.get(f"/api/operator-policies/{V}/ops").status == 404
    assert server.delete(parameter).status == 404


def test_a_description_that_is_no_text_is_refused(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    path = "/api/vhosts/described"
    reply = server.put(path, {"description": 5})
    assert (reply.status, reply.json["reason"]) == (400, ["not_a_string", 5])
    assert server.get(path).status == 404


def test_a_new_virtual_host_is_its_creators(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    server.put("/api/users/creator", {"password": "creator", "tags": "administrator"})
    assert server.put("/api/vhosts/created", user="creator").status == 201
    rows = server.get("/api/vhosts/created/permissions").json
    assert rows == [
        {"vhost": "created", "user": "creator", "configure": ".*", "write": ".*", "read": ".*"}
    ]
    assert server.put("/api/queues/created/q", user="creator").status == 201


@pytest.mark.parametrize("algorithm", [None, "rabbit_password_hashing_sha256"])
def test_a_hash_that_the_server_has_made_logs_in(
    shared_management_server: ManagementServer, algorithm: str | None
) -> None:
    server = shared_management_server
    made = server.get("/api/auth/hash_password/p%2Fw").json["ok"]
    user = {"password_hash": made, "tags": "management"}
    if algorithm is not None:
        user["hashing_algorithm"] = algorithm
    server.put("/api/users/hashed", user)
    assert server.get("/api/whoami", user="hashed", password="p/w").status == 200


def test_attempts_are_those_of_this_node(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    (node,) = (row["name"] for row in server.get("/api/nodes").json)
    assert server.get("/api/whoami", password="wrong").status == 401
    (row,) = (
        each for each in server.get(f"/api/auth/attempts/{node}").json if each["protocol"] == "http"
    )
    assert row["auth_attempts_failed"] >= 1
    assert row["auth_attempts"] == row["auth_attempts_failed"] + row["auth_attempts_succeeded"]
    assert server.get(f"/api/auth/attempts/{node}/source").json == []
    assert server.get("/api/auth/attempts/elsewhere").status == 404


def test_names_that_amqp_cannot_carry_are_400(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    long = "x" * 256
    for path, body in (
        (f"/api/users/{long}", {"tags": ""}),
        (f"/api/vhosts/{long}", {}),
        (f"/api/queues/{V}/{long}", {}),
        (f"/api/exchanges/{V}/{long}", {}),
        (f"/api/policies/{V}/{long}", {"pattern": "", "definition": {"max-length": 1}}),
        (f"/api/parameters/federation-upstream/{V}/{long}", {"value": {}}),
    ):
        reply = server.put(path, body)
        assert (reply.status, reply.json["error"]) == (400, "bad_request"), path
        assert "255" in str(reply.json["reason"]), path
