"""What an answer confirms is on the disk."""

import pytest

from tests.management.conftest import ManagementServer

V = "%2F"


@pytest.mark.crash
def test_what_was_answered_survives_a_kill(management_server: ManagementServer) -> None:
    server = management_server
    made = [
        ("/api/vhosts/kv", {"description": "d"}),
        ("/api/users/ku", {"password": "ku", "tags": "monitoring"}),
        ("/api/permissions/kv/ku", {"configure": "a", "write": "b", "read": "c"}),
        (f"/api/policies/{V}/kp", {"pattern": "^kq", "definition": {"max-length": 50}}),
        (f"/api/parameters/federation-upstream/{V}/ks", {"value": {"a": 1}}),
        ("/api/global-parameters/kg", {"value": 1}),
        (f"/api/exchanges/{V}/kx", {"type": "topic", "durable": True}),
        (f"/api/queues/{V}/kq", {"durable": True}),
    ]
    removed = [(path.replace("/k", "/gone-k"), body) for path, body in made if "/kv" not in path]
    for path, body in made + removed:
        assert server.put(path, body).status == 201, path
    between = f"/api/bindings/{V}/e/kx/q/kq"
    assert server.post(between, {"routing_key": "k"}).status == 201
    message = {"routing_key": "kq", "properties": {"delivery_mode": 2}}
    message |= {"payload": "stays", "payload_encoding": "string"}
    assert server.post(f"/api/exchanges/{V}/amq.default/publish", message).json["routed"]
    for path, _ in removed:
        assert server.delete(path).status == 204, path

    server.server.kill()
    server.server.start()
    server.read_addresses()

    for path, _ in made:
        assert server.get(path).status == 200, path
    for path, _ in removed:
        assert server.get(path).status == 404, path
    assert server.get("/api/vhosts/kv").json["description"] == "d"
    assert server.get("/api/whoami", user="ku").status == 200
    assert [row["routing_key"] for row in server.get(between).json] == ["k"]
    asked = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    (got,) = server.post(f"/api/queues/{V}/kq/get", asked).json
    assert got["payload"] == "stays"
