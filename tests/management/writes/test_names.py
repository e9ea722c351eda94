"""Names with any characters work in every path, and nothing of them is taken for something else."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.management.conftest import ManagementServer

HOSTILE = [
    "a/b",
    "a?b=c",
    "a#b",
    "50%",
    "%2F",
    "a b",
    "a+b",
    "é",
    "..",
    "<script>alert(1)</script>",
    "'\"\\",
    "a\tb",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_an_object_of_each_kind_may_have_any_name(
    shared_management_server: ManagementServer, name: str
) -> None:
    server = shared_management_server
    encoded = quote(name, safe="")
    row = {"configure": ".*", "write": ".*", "read": ".*"}
    policy = {"pattern": "^a", "definition": {"max-length": 5}}
    vhost = f"/api/vhosts/{encoded}"
    paths: list[tuple[str, dict[str, Any]]] = [
        (vhost, {"description": name, "tags": [name]}),
        (f"/api/users/{encoded}", {"password": name, "tags": [name, "administrator"]}),
        (f"/api/permissions/{encoded}/{encoded}", row),
        (f"/api/policies/{encoded}/{encoded}", policy),
        (f"/api/operator-policies/{encoded}/{encoded}", policy),
        (f"/api/parameters/federation-upstream/{encoded}/{encoded}", {"value": {"name": name}}),
        (f"/api/global-parameters/{encoded}", {"value": name}),
    ]
    for path, body in paths:
        assert server.put(path, body).status == 201, path
        assert server.put(path, body).status == 204, path
        assert server.get(path).status == 200, path
    topic = f"/api/topic-permissions/{encoded}/{encoded}"
    assert server.put(topic, {"exchange": name, "write": "", "read": ""}).status == 201
    (shown,) = server.get(topic).json
    assert (shown["vhost"], shown["user"], shown["exchange"]) == (name, name, name)
    assert server.get(vhost).json["description"] == name
    assert server.get("/api/whoami", user=name).json == {
        "name": name,
        "tags": [name, "administrator"],
    }

    # Things inside that virtual host.
    assert server.put(f"/api/queues/{encoded}/{encoded}", {"durable": True}).status == 201
    exchange = f"/api/exchanges/{encoded}/{encoded}"
    assert server.put(exchange, {"type": "direct", "durable": True}).status == 201
    between = f"/api/bindings/{encoded}/e/{encoded}/q/{encoded}"
    made = server.post(between, {"routing_key": name})
    assert made.status == 201
    # A browser, and a client that goes by the header alone, find the binding at its location.
    location = made.headers["location"]
    at = between.removesuffix(encoded) + location
    found = server.get(at)
    assert (found.status, found.json["routing_key"]) == (200, name)
    message = {"properties": {}, "payload": name, "payload_encoding": "string"}
    published = server.post(f"{exchange}/publish", {**message, "routing_key": name})
    assert published.json == {"routed": True}
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    (got,) = server.post(f"/api/queues/{encoded}/{encoded}/get", asked).json
    assert (got["payload"], got["exchange"], got["routing_key"]) == (name, name, name)
    assert server.delete(at).status == 204
    assert server.get(at).status == 404
    exported = server.get(f"/api/definitions/{encoded}").json
    assert [each["name"] for each in exported["queues"]] == [name]

    assert server.delete(f"{topic}/{encoded}").status == 204
    for path, _ in reversed(paths[1:]):
        assert server.delete(path).status == 204, path
        assert server.delete(path).status == 404, path
    assert server.delete(vhost).status == 204
