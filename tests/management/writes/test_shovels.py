"""Shovels over the HTTP API, and the events that tell of them."""

import socket
from typing import Any

import orjson

from amqp_server.control.protocol import Request, encode_request
from amqp_server.control.socket_path import SOCKET_NAME
from tests.management.conftest import ManagementServer

V = "%2F"
ENDS = {"src-uri": "amqp://", "src-queue": "from", "dest-uri": "amqp://", "dest-queue": "to"}


def followed(server: ManagementServer, wanted: str) -> Any:  # noqa: ANN401 - JSON
    """Yield the events of a name as they happen."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.storage_path / SOCKET_NAME))
        connection.sendall(encode_request(Request("events.follow", {})))
        for line in connection.makefile("rb"):
            for event in orjson.loads(line)["progress"]["events"] or [None]:
                if event is None or event["event"] == wanted:
                    yield event


def test_shovels_are_set_shown_restarted_and_deleted(management_server: ManagementServer) -> None:
    server = management_server
    assert server.get("/api/shovels").json == []
    events = followed(server, "shovel.worker.status")
    assert next(events) is None
    path = f"/api/parameters/shovel/{V}/a%2Fb"
    refused = server.put(path, {"value": {"zzz": 1}})
    assert (refused.status, refused.json) == (
        400,
        {
            "error": "bad_request",
            "reason": "Validation failed\n\nMust specify 'src-exchange' or 'src-queue'\n"
            'Unrecognised terms [{<<"zzz">>,1}] in a/b\nKey "dest-uri" not found in a/b\n'
            'Key "src-uri" not found in a/b\n',
        },
    )
    address = f"amqp://guest:guest@127.0.0.1:{server.amqp_port}"
    assert server.put(path, {"value": {**ENDS, "src-uri": address}}).status == 201
    states = []
    while "running" not in states:
        event = next(events)
        if event is not None:
            assert (event["vhost"], event["object"]) == ("/", "a/b")
            states.append(event["details"]["status"])
    assert states == ["starting", "running"]
    (row,) = server.get("/api/shovels").json
    assert server.get(f"/api/shovels/{V}").json == [row]
    for one in (f"/api/shovels/{V}/a%2Fb", f"/api/shovels/vhost/{V}/a%2Fb"):
        assert server.get(one).json == row
    assert len(row.pop("timestamp")) == len("2026-11-23 11:00:10")
    assert row.pop("node").startswith("rabbit@")
    assert row == {
        "name": "a/b",
        "vhost": "/",
        "type": "dynamic",
        "state": "running",
        "src_uri": f"amqp://127.0.0.1:{server.amqp_port}",
        "src_protocol": "amqp091",
        "src_queue": "from",
        "dest_uri": "amqp://",
        "dest_protocol": "amqp091",
        "dest_queue": "to",
    }
    assert server.delete(f"/api/shovels/vhost/{V}/a%2Fb/restart").status == 204
    restarted = (event for event in events if event is not None)
    assert [next(restarted)["details"]["status"] for _ in range(2)] == ["starting", "running"]
    for gone in (f"/api/shovels/vhost/{V}/none", "/api/shovels/vhost/none/none"):
        assert server.get(gone).status == 404
        assert server.delete(gone).status == 404
        assert server.delete(f"{gone}/restart").status == 404
    assert server.get("/api/shovels/none").status == 404
    assert server.delete(f"/api/shovels/vhost/{V}/a%2Fb").status == 204
    assert server.delete(f"/api/shovels/vhost/{V}/a%2Fb").status == 404
    assert server.get("/api/parameters/shovel").json == []
    # They follow the parameters in their own time.
    while server.get("/api/shovels").json:
        pass


def test_who_sees_and_changes_shovels(management_server: ManagementServer) -> None:
    server = management_server
    assert server.put(f"/api/parameters/shovel/{V}/s", {"value": ENDS}).status == 201
    for user in ("monitoring", "policymaker", "management"):
        body = {"password": "p", "tags": user}
        assert server.put(f"/api/users/{user}", body).status == 201
        body = {"configure": ".*", "write": ".*", "read": ".*"}
        assert server.put(f"/api/permissions/{V}/{user}", body).status == 201
    one = f"/api/shovels/vhost/{V}/s"
    seen = {
        user: server.request("GET", "/api/shovels", user=user, password="p").status
        for user in ("monitoring", "policymaker", "management")
    }
    assert seen == {"monitoring": 200, "policymaker": 401, "management": 401}
    for user in ("monitoring", "management"):
        assert server.request("DELETE", one, user=user, password="p").status == 401
        assert server.request("DELETE", f"{one}/restart", user=user, password="p").status == 401
    assert server.request("DELETE", one, user="policymaker", password="p").status == 204
