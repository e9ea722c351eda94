"""One object of each kind, with words that name nothing else: who sees them is what a test asks.

Every route has a path to these objects and a body that it takes, so a request is refused for the
one reason that is tested.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from pamqp.commands import Queue

from amqp_server.management.http.routes import Route
from tests.amqp_client import AmqpClient, connect
from tests.management.conftest import ManagementServer

VHOST: Final = "guarded"
OWNER: Final = "word-user"
OBJECT: Final = "word-object"
"""Name of the queue, exchange, policies and parameter, and the key between queue and exchange."""
BODY: Final = "word-body"
PARAMETER: Final = "word-value"
PERMISSION: Final = "word-row|.*"
CLIENT: Final = "word-client"
GLOBAL: Final = "word-global"
COMPONENT: Final = "federation-upstream"
"""Its parameters have no effect."""
ELSEWHERE: Final = "elsewhere"
STREAM: Final = "streamed"
_POLICY: Final = {"pattern": "^no-such", "definition": {"max-length": 9}}
_ALL: Final = {"configure": PERMISSION, "write": ".*", "read": ".*"}
_V: Final = f"/api/queues/{VHOST}"
_MADE: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (f"/api/vhosts/{VHOST}", {}),
    (f"/api/users/{OWNER}", {"password": OWNER, "tags": "management"}),
    (f"/api/permissions/{VHOST}/{OWNER}", _ALL),
    (f"/api/permissions/{VHOST}/guest", _ALL),
    (
        f"/api/topic-permissions/{VHOST}/{OWNER}",
        {"exchange": "amq.topic", "write": PERMISSION, "read": PERMISSION},
    ),
    (f"/api/queues/{VHOST}/{OBJECT}", {"durable": True}),
    (f"/api/queues/{VHOST}/{ELSEWHERE}", {"durable": True}),
    (
        f"/api/queues/{VHOST}/{STREAM}",
        {"durable": True, "arguments": {"x-queue-type": "stream"}},
    ),
    (
        f"/api/exchanges/{VHOST}/{OBJECT}",
        {
            "type": "x-delayed-message",
            "durable": True,
            "arguments": {"x-delayed-type": "direct"},
        },
    ),
    (f"/api/policies/{VHOST}/{OBJECT}", _POLICY),
    (f"/api/operator-policies/{VHOST}/{OBJECT}", _POLICY),
    (f"/api/parameters/{COMPONENT}/{VHOST}/{OBJECT}", {"value": {"word": PARAMETER}}),
    (f"/api/global-parameters/{GLOBAL}", {"value": GLOBAL}),
    (f"/api/vhost-limits/{VHOST}/max-queues", {"value": 1000}),
    (f"/api/user-limits/{OWNER}/max-channels", {"value": 100}),
)
_BODIES: Final[dict[str, dict[str, Any]]] = {
    "/api/bindings/": {"routing_key": OBJECT},
    "/publish": {
        "routing_key": OBJECT,
        "properties": {},
        "payload": BODY,
        "payload_encoding": "string",
    },
    "/get": {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
    "/actions": {"action": "sync"},
    "/move": {"to": ELSEWHERE},
    "/groups/{group}": {"to": "earliest"},
    "/api/users/bulk-delete": {"users": []},
    "/api/cluster-name": {"name": "word"},
}


class Scene:
    """The objects, in one virtual host, and a client that consumes there.

    Args:
        server: Server that has them.
    """

    def __init__(self, server: ManagementServer) -> None:
        self._server = server
        self._client: AmqpClient | None = None
        self._connection = "none"
        self.node = server.get("/api/overview").json["node"]

    def make(self) -> None:
        """Make whatever is not there."""
        server = self._server
        for path, body in _MADE:
            reply = server.put(path, body)
            assert reply.status in (201, 204), (path, reply)
        binding = f"/api/bindings/{VHOST}/e/{OBJECT}/q/{OBJECT}"
        if server.get(f"{binding}/{OBJECT}").status != 200:
            server.post(binding, {"routing_key": OBJECT})
            between = f"/api/bindings/{VHOST}/e/{OBJECT}/e/amq.topic"
            server.post(between, {"routing_key": OBJECT})
            server.post(f"/api/exchanges/{VHOST}/amq.default/publish", _BODIES["/publish"])
        if server.get(f"/api/connections/{quote(self._connection)}").status != 200:
            self._connect()

    def close(self) -> None:
        """Close the client."""
        if self._client is not None:
            self._client.socket.close()

    def path_of(self, route: Route) -> str:
        """Return the path of a route to the objects."""
        parts = route.path.split("/")
        return "/".join(self._segment(parts, place) for place in range(len(parts)))

    def body_of(self, route: Route) -> dict[str, Any] | None:
        """Return a body that a route takes; None where it takes none."""
        if route.method in ("GET", "DELETE"):
            return None
        for end, body in _BODIES.items():
            if route.path.startswith(end) or route.path.endswith(end):
                return body
        path = self.path_of(route)
        return next((body for made, body in _MADE if made == path), {})

    def _segment(self, parts: list[str], place: int) -> str:
        part = parts[place]
        if not part.startswith("{"):
            return part
        in_names = {"stream": "x", "feature-flags": "x", "connections": self._connection}
        if "{group}" in parts:
            in_names["queues"] = STREAM
        in_names |= {"channels": f"{self._connection} (1)", "global-parameters": GLOBAL}
        names = {
            "{vhost}": VHOST,
            "{user}": OWNER,
            "{name}": in_names.get(parts[2], OBJECT),
            "{node}": self.node,
            "{source}": OBJECT,
            "{destination}": OBJECT if parts[place - 1] == "q" else "amq.topic",
            "{properties_key}": OBJECT,
            "{exchange}": "amq.topic",
            "{component}": COMPONENT,
            "{limit}": "max-queues" if parts[2] == "vhost-limits" else "max-channels",
            "{port}": str(self._server.amqp_port),
            "{protocols}": "amqp",
            "{within}": "1",
            "{unit}": "weeks",
            "{password}": "x",
            "{pattern}": "x",
        }
        # Numbers, such as those of what runs or of a message: there is none.
        return quote(names.get(part, "1"), safe="")

    def _connect(self) -> None:
        self.close()
        client = self._client = connect(
            ("127.0.0.1", self._server.amqp_port),
            user=OWNER,
            password=OWNER,
            vhost=VHOST,
            properties={"connection_name": CLIENT},
        )
        client.open_channel()
        # Of its own queue: the message of the other one stays ready.
        client.call(Queue.Declare(queue="", exclusive=True), Queue.DeclareOk)
        host, port = client.socket.getsockname()[:2]
        self._connection = f"{host}:{port} -> 127.0.0.1:{self._server.amqp_port}"
