"""Definitions by HTTP: out and in again, all or nothing, from JSON and from forms."""

import json
from typing import Any

import pytest

from amqp_server.definitions_file.export_form import definitions_file
from amqp_server.definitions_file.file_content import CLUSTER_SECTIONS, SECTIONS
from amqp_server.management.resources import definitions_file as of_http
from tests.management.conftest import ManagementServer, Reply, StartManagementServer

JSON = {"content-type": "application/json"}
FORM = {"content-type": "multipart/form-data; boundary=XX"}
QUEUE: dict[str, Any] = {"name": "dq", "vhost": "/", "durable": True, "auto_delete": False}
QUEUE["arguments"] = {}


def send(server: ManagementServer, value: object, query: str = "", **options: Any) -> Reply:  # noqa: ANN401 - of `request`
    options.setdefault("headers", JSON)
    return server.post(f"/api/definitions{query}", value, **options)


def queue_names(server: ManagementServer) -> set[str]:
    return {row["name"] for row in server.get("/api/queues").json}


def fill(server: ManagementServer) -> None:
    """Make one object of each kind."""
    for path, body in (
        ("vhosts/dv", {"description": "d", "tags": "a,b"}),
        ("users/du", {"password": "secret", "tags": "monitoring"}),
        ("permissions/dv/du", {"configure": "a", "write": "b", "read": "c"}),
        ("topic-permissions/dv/du", {"exchange": "amq.topic", "write": "w", "read": "r"}),
        ("vhost-limits/dv/max-queues", {"value": 9}),
        ("user-limits/du/max-channels", {"value": 8}),
        ("policies/dv/p", {"pattern": "^p", "definition": {"max-length": 5}}),
        ("operator-policies/dv/o", {"pattern": "^p", "definition": {"max-length": 6}}),
        ("parameters/federation-upstream/dv/s", {"value": {"src-uri": "amqp://"}}),
        ("global-parameters/g", {"value": [1]}),
        ("exchanges/dv/x", {"type": "topic", "durable": True}),
        ("queues/dv/q", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
    ):
        assert server.put(f"/api/{path}", body).status in (201, 204), path
    made = server.post("/api/bindings/dv/e/x/q/q", {"routing_key": "k", "arguments": {"n": 1}})
    assert made.status == 201


def without_order(definitions: dict[str, Any]) -> dict[str, Any]:
    return {
        name: sorted(value, key=lambda each: json.dumps(each, sort_keys=True))
        if isinstance(value, list)
        else value
        for name, value in definitions.items()
    }


def test_what_is_exported_makes_an_equal_server(
    start_management_server: StartManagementServer,
) -> None:
    first, second = start_management_server(), start_management_server()
    fill(first)
    whole = first.get("/api/definitions").json
    assert list(whole)[: len(definitions_file({}))] == list(definitions_file({}))
    assert send(second, whole).status == 204
    assert without_order(second.get("/api/definitions").json) == without_order(whole)
    assert second.get("/api/whoami", user="du", password="secret").status == 200
    # Again: nothing changes.
    report = send(second, whole, "?report=true").json
    for section, counts in report["sections"].items():
        assert {name for name, count in counts.items() if count} <= {"equal"}, section

    of_vhost = first.get("/api/definitions/dv").json
    assert of_vhost["rabbitmq_definition_format"] == "single_virtual_host"
    assert not {"users", "vhosts", "permissions"} & of_vhost.keys()
    second.put("/api/vhosts/other")
    assert send(second, of_vhost, "/other").status == 204
    copied = second.get("/api/definitions/other").json
    for section in ("queues", "exchanges", "bindings", "policies"):
        assert without_order(copied)[section] == without_order(of_vhost)[section]


def test_the_sections_are_those_of_the_broker() -> None:
    assert of_http.SECTIONS == SECTIONS
    assert set(of_http._NOT_OF_VHOST) == set(CLUSTER_SECTIONS)


def test_a_mistake_changes_nothing_and_each_is_named(
    shared_management_server: ManagementServer,
) -> None:
    server = shared_management_server
    wrong = {
        "queues": [{**QUEUE, "name": "all-or-nothing"}, {**QUEUE, "vhost": "zz"}],
        "permissions": [{"user": "x", "vhost": "/", "configure": "", "write": "", "read": ""}],
    }
    reply = send(server, wrong)
    assert (reply.status, reply.json) == (
        400,
        {"error": "bad_request", "reason": "permissions[0]: no user 'x'\nqueues[1]: no vhost 'zz'"},
    )
    assert "all-or-nothing" not in queue_names(server)


def test_a_dry_run_tells_and_changes_nothing(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    assert server.put("/api/queues/%2F/there", {"durable": False}).status == 201
    value = {"queues": [{**QUEUE, "name": "planned"}, {**QUEUE, "name": "there"}]}
    reply = send(server, value, "?dry_run=true")
    assert reply.status == 200
    counts = reply.json["sections"]["queues"]
    assert (counts["created"], counts["different"]) == (1, 1)
    assert "'there'" in reply.json["different"][0]
    assert "planned" not in queue_names(server)
    assert send(server, value, "?report=true").json == reply.json
    assert "planned" in queue_names(server)


def test_passwords_become_hashes(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    users = [
        {"name": "plain", "password": "pé", "tags": "management"},
        {"name": "blank", "password": "", "tags": ["management"]},
    ]
    assert send(server, {"users": users}).status == 204
    assert server.get("/api/whoami", user="plain", password="pé").status == 200
    assert server.get("/api/whoami", user="blank", password="").status == 401
    both = [{"name": "x", "password": "p", "password_hash": "h", "tags": ""}]
    assert send(server, {"users": both}).json["reason"] == (
        "both_password_and_password_hash_are_provided"
    )
    assert send(server, {"users": [{"name": "x", "password": 5, "tags": ""}]}).status == 400


def test_a_file_of_one_virtual_host_needs_one(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    file = {"queues": [{"name": "single", "durable": True}]}
    reply = send(server, file)
    assert (reply.status, "/api/definitions/VHOST" in reply.json["reason"]) == (400, True)
    # Users and virtual hosts in it are ignored there.
    more = {**file, "users": [{"name": "ignored", "tags": ""}], "vhosts": [{"name": "ignored"}]}
    assert send(server, more, "/%2F").status == 204
    assert "single" in queue_names(server)
    assert server.get("/api/users/ignored").status == 404
    assert server.get("/api/vhosts/ignored").status == 404


def form(*fields: tuple[str, bytes]) -> bytes:
    parts = [
        b'--XX\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (name.encode(), value)
        for name, value in fields
    ]
    return b"".join((*parts, b"--XX--\r\n"))


@pytest.mark.parametrize(
    ("redirect", "status"),
    [
        (b"../#/import-succeeded", 303),
        (b"/#/done", 303),
        (b"", 204),
        (b"https://elsewhere.example/", 204),
        (b"//elsewhere.example/", 204),
        (b"javascript:alert(1)", 204),
        (b"/\r\nset-cookie: a=b", 204),
        (b"/\\elsewhere.example", 204),
    ],
)
def test_a_form_leads_back_to_this_server_only(
    shared_management_server: ManagementServer, redirect: bytes, status: int
) -> None:
    file = json.dumps({"queues": [{**QUEUE, "name": "of-form"}]}).encode()
    body = form(("file", file), ("redirect", redirect))
    reply = send(shared_management_server, body, headers=FORM)
    assert reply.status == status
    assert reply.headers.get("location") == (redirect.decode() if status == 303 else None)
    assert "set-cookie" not in reply.headers
    assert "of-form" in queue_names(shared_management_server)


@pytest.mark.parametrize(
    ("body", "content_type", "status", "reason"),
    [
        (b"{", "application/json", 400, "failed_to_parse_json"),
        (b"[]", "application/json", 400, "failed_to_parse_json"),
        (b"", "application/json", 400, "failed_to_parse_json"),
        (b'{"queues": 5}', "application/json", 400, "'queues' is not a list of objects"),
        (b'{"queues": [5]}', "application/json", 400, "'queues' is not a list of objects"),
        (b"{}", "text/plain", 415, None),
        (b"{}", "application/x-www-form-urlencoded", 415, None),
        (b"", "multipart/form-data; boundary=XX", 400, "the form does not end"),
        (b"--XX\r\nno head\r\n--XX--", "multipart/form-data; boundary=XX", 400, "no head"),
        (b"--XX--", "multipart/form-data", 400, "the form has no boundary"),
        (form(("other", b"{}")), "multipart/form-data; boundary=XX", 400, "failed_to_parse_json"),
    ],
)
def test_what_is_no_definitions_file_is_refused(
    shared_management_server: ManagementServer,
    body: bytes,
    content_type: str,
    status: int,
    reason: str | None,
) -> None:
    headers = {"content-type": content_type}
    reply = send(shared_management_server, body, headers=headers)
    assert reply.status == status
    if reason is not None:
        assert reason in reply.json["reason"]


def test_the_name_of_a_download_cannot_end_the_header(
    shared_management_server: ManagementServer,
) -> None:
    reply = shared_management_server.get(
        "/api/definitions?download=a%0d%0ab%22%3b/..%20%C3%A9.json"
    )
    assert reply.headers["content-disposition"] == "attachment; filename=ab...json"


def test_a_file_of_many_parts_is_imported(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    names = [f"many-{number}-" + "é" * 100 for number in range(2000)]
    assert send(server, {"queues": [{**QUEUE, "name": name} for name in names]}).status == 204
    assert set(names) <= queue_names(server)
