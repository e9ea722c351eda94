"""Shovels that no administrator has set, on a real server: they have the rights of their owner."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.control.asking import Asking
from tests.management.conftest import ManagementServer, Reply, StartManagementServer

V = "%2F"


def shovel(source: str = "amqp://", destination: str = "amqp://") -> dict[str, Any]:
    return {"src-uri": source, "src-queue": "from", "dest-uri": destination, "dest-queue": "to"}


def put(server: ManagementServer, value: dict[str, Any], user: str) -> tuple[int, str]:
    reply = server.put(f"/api/parameters/shovel/{V}/s", {"value": value}, user=user)
    return reply.status, reply.json["reason"] if reply.status == 400 else ""


def until(server: ManagementServer, state: str, **members: str) -> dict[str, Any]:
    """Return the row of the only shovel when it is in a state and has these members.

    A shovel follows its parameter in its own time: what is shown first may be that of the one
    before.
    """
    while True:
        rows = server.ask("shovels.list")
        if rows and rows[0]["state"] == state and ("reason" in rows[0]) == (state == "terminated"):
            row: dict[str, Any] = rows[0]
            if members.items() <= row.items():
                return row


@pytest.fixture
def server(start_management_server: StartManagementServer) -> ManagementServer:
    """Start a server with a policymaker who may use queues whose names begin with `a`."""
    server = start_management_server()
    server.add_user("ann", "policymaker")
    rights = dict.fromkeys(("configure", "write", "read"), "^a|^amq.default$")
    server.ask("permissions.set", vhost="/", user="ann", **rights)
    return server


def test_a_policymaker_is_not_guest_by_a_shovel(server: ManagementServer) -> None:
    port = server.amqp_port
    status, reason = put(server, shovel(f"amqp://127.0.0.1:{port}"), "ann")
    assert status == 400
    assert "it names no user, which means guest" in reason
    # With the password in the address it is the process that would be on this machine.
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        uri = f"amqp://guest:guest@{host}:{port}"
        assert put(server, shovel(uri, uri), "ann")[0] in (201, 204)
        row = until(server, "terminated", src_uri=f"amqp://{host}:{port}")
        assert "guest logs in from the machine of the broker alone" in row["reason"]
    # An administrator may have such a shovel.
    uri = f"amqp://guest:guest@127.0.0.1:{port}"
    assert put(server, shovel(uri, uri), "guest") == (204, "")
    until(server, "running")


def test_a_shovel_of_this_server_has_the_rights_of_its_owner(server: ManagementServer) -> None:
    secret = {**shovel(), "src-queue": "secret", "dest-queue": "a1"}
    assert put(server, secret, "ann") == (201, "")
    row = until(server, "terminated")
    assert "access to queue 'secret' in vhost '/' refused for user 'ann'" in row["reason"]
    own = {**shovel(), "src-queue": "a1", "dest-queue": "a2"}
    assert put(server, own, "ann") == (204, "")
    until(server, "running")
    assert {row["user"] for row in server.get("/api/connections").json} <= {"ann"}


def test_the_owner_is_known_after_a_restart_and_gone_with_the_user(
    server: ManagementServer,
) -> None:
    secret = {**shovel(), "src-queue": "secret", "dest-queue": "a1", "reconnect-delay": 0.01}
    assert put(server, secret, "ann") == (201, "")
    until(server, "terminated")
    assert server.server.terminate() == 0
    server.server.restart()
    server.read_addresses()
    assert "refused for user 'ann'" in until(server, "terminated")["reason"]
    server.ask("users.delete", name="ann")
    while "ACCESS_REFUSED - Login was refused" not in until(server, "terminated")["reason"]:
        pass
    # What an administrator sets again is the administrator's.
    assert put(server, secret, "guest") == (204, "")
    until(server, "running")


def exported(server: ManagementServer) -> dict[str, Any]:
    """Return the definitions, as the administrator gets them."""
    found: dict[str, Any] = server.get("/api/definitions").json
    return found


def imported(server: ManagementServer, path: str, file: object, user: str = "guest") -> Reply:
    return server.post(path, file, user=user, headers={"content-type": "application/json"})


def owners(server: ManagementServer) -> list[object]:
    return [each.get("owner") for each in exported(server)["parameters"]]


ANN = {"user": "ann", "backend": "internal"}
SECRET = {**shovel(), "src-queue": "secret", "dest-queue": "a1", "reconnect-delay": 0.01}


def test_definitions_keep_the_owner(
    server: ManagementServer, start_management_server: StartManagementServer
) -> None:
    assert put(server, SECRET, "ann") == (201, "")
    until(server, "terminated")
    file = exported(server)
    assert [each["owner"] for each in file["parameters"]] == [ANN]
    of_vhost = server.get(f"/api/definitions/{V}").json
    assert [each["owner"] for each in of_vhost["parameters"]] == [ANN]

    other = start_management_server()
    assert imported(other, "/api/definitions", file).status == 204
    assert "refused for user 'ann'" in until(other, "terminated")["reason"]
    assert owners(other) == [ANN]
    # It is in the document as well.
    assert other.server.terminate() == 0
    other.server.restart()
    other.read_addresses()
    assert owners(other) == [ANN]
    # An owner alone is a change: the shovel was an administrator's.
    assert put(other, SECRET, "guest") == (204, "")
    assert owners(other) == [None]
    assert imported(other, f"/api/definitions/{V}", of_vhost).status == 204
    assert owners(other) == [ANN]


def test_a_file_without_owners_makes_a_shovel_an_administrators(server: ManagementServer) -> None:
    assert put(server, SECRET, "ann") == (201, "")
    file = exported(server)
    del file["parameters"][0]["owner"]
    assert imported(server, "/api/definitions", file).status == 204
    assert owners(server) == [ANN]  # equal: nothing has changed
    file["parameters"][0]["value"]["reconnect-delay"] = 5
    assert imported(server, "/api/definitions", file).status == 204
    assert owners(server) == [None]


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        ("ann", "'owner' is 'ann', expected an object"),
        ({"user": "ann"}, "'backend' is missing, in 'owner'"),
        ({"user": 1, "backend": "internal"}, "'user' is 1, expected a text, in 'owner'"),
        ({"user": "", "backend": "internal"}, "'user' is empty, in 'owner'"),
        ({"user": "a" * 256, "backend": "internal"}, "'user' is longer than 255 bytes, in 'owner'"),
    ],
)
def test_an_owner_that_is_none_refuses_the_file(
    server: ManagementServer, owner: object, reason: str
) -> None:
    entry = {"vhost": "/", "component": "shovel", "name": "s", "value": shovel(), "owner": owner}
    reply = imported(server, "/api/definitions", {"parameters": [entry]})
    assert (reply.status, owners(server)) == (400, [])
    assert f"parameters[0]: {reason}" in reply.json["reason"]


def test_no_user_but_an_administrator_imports_for_another(server: ManagementServer) -> None:
    put(server, SECRET, "ann")
    file = exported(server)
    server.add_user("mia", "policymaker")
    server.ask("permissions.set", vhost="/", user="mia", configure="", write="", read="")
    for path in ("/api/definitions", f"/api/definitions/{V}"):
        assert imported(server, path, file, user="mia").status in (401, 403)
    # Neither if the API let her: the broker itself knows who asks.
    asking = Asking(server.storage_path, "mia")
    for owner in (None, ANN, {"user": "guest", "backend": "internal"}):
        entry = {"vhost": "/", "component": "shovel", "name": "s", "value": SECRET, "owner": owner}
        lines = json.dumps(["parameters", 0, "", entry]) + "\n"
        uploaded = asking.ask("definitions.upload", file="", lines=lines)
        place = {"file": uploaded, "vhost": "", "rabbit_version": "", "dry_run": False}
        asking.ask("definitions.import", **place)
        assert owners(server) == [{"user": "mia", "backend": "internal"}]
