"""The requests of the walk through the API: every endpoint and method, with good and bad input.

A path has `{node}`, `{connection}`, `{channel}` where the broker chooses the name. The order
counts: what a step makes, later steps read, and the last ones take away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

PASSWORD: Final = "walk-1"
TAGGED: Final = ("management", "policymaker", "monitoring", "administrator")
"""Users of these names have this tag alone; `untagged` has none, `walker` a free tag as well."""

Login = tuple[str, str] | None | bool


@dataclass(frozen=True, slots=True)
class Step:
    """One request.

    Attributes:
        method: HTTP method.
        path: Path below `/api` with query, names in it encoded.
        body: As for `Api.ask`.
        note: What tells it from steps with the same method and path.
        login: As for `Api.ask`.
        headers: Sent besides.
        is_exact: Whether the answer's values count, not only their types.
        is_brief: Whether not even types count, but the number of items or the names of fields.
    """

    method: str
    path: str
    body: object = None
    note: str = ""
    login: Login = True
    headers: dict[str, str] = field(default_factory=dict)
    is_exact: bool = False
    is_brief: bool = False

    @property
    def title(self) -> str:
        """Names it in the recording."""
        return f"{self.method} {self.path}" + (f" ({self.note})" if self.note else "")


def objects() -> Iterator[Step]:
    """Make what the walk looks at: good input of all that is made by PUT and POST."""
    yield Step("PUT", "/vhosts/walk", {"description": "the walk", "tags": "a,b"})
    yield Step("PUT", "/vhosts/walk", {"description": "the walk", "tags": "a,b"}, "again")
    yield Step("PUT", "/vhosts/empty")
    yield Step("PUT", "/vhosts/un%2Fusual%20%C3%A9%3F%25")
    for name in TAGGED:
        yield Step("PUT", f"/users/{name}", {"password": PASSWORD, "tags": name})
    yield Step("PUT", "/users/untagged", {"password": PASSWORD, "tags": ""})
    yield Step("PUT", "/users/walker", {"password": PASSWORD, "tags": "management, own"})
    yield Step("PUT", "/users/walker", {"password": PASSWORD, "tags": "management, own"}, "again")
    yield Step("PUT", "/users/hashed", {"password_hash": HASH, "tags": ["management"]})
    yield Step("PUT", "/users/blank", {"password_hash": "", "tags": "management"})
    full = {"configure": ".*", "write": ".*", "read": ".*"}
    for name in (*TAGGED, "untagged", "hashed"):
        yield Step("PUT", f"/permissions/%2F/{name}", full)
    yield Step("PUT", "/permissions/walk/walker", {"configure": "^w", "write": "", "read": ".*"})
    yield Step("PUT", "/permissions/walk/walker", full, "changed")
    yield Step(
        "PUT",
        "/topic-permissions/walk/walker",
        {"exchange": "amq.topic", "write": "^a", "read": ".*"},
    )
    yield Step("PUT", "/vhost-limits/walk/max-queues", {"value": 1000})
    yield Step("PUT", "/vhost-limits/walk/max-connections", {"value": "2000"}, "text")
    yield Step("PUT", "/user-limits/walker/max-channels", {"value": 100})
    policy = {"pattern": "^policed", "definition": {"max-length": 100}, "apply-to": "queues"}
    yield Step("PUT", "/policies/%2F/walk", policy | {"priority": 3})
    yield Step("PUT", "/policies/%2F/walk", policy | {"priority": "4"}, "priority as text")
    yield Step("PUT", "/operator-policies/%2F/walk", policy)
    yield Step("PUT", "/global-parameters/walk", {"value": {"a": [1, "b", True]}})
    yield Step("PUT", "/cluster-name", {"name": "walked"})
    yield Step("PUT", "/queues/%2F/walk", {"durable": True, "arguments": {"x-max-length": 50}})
    yield Step(
        "PUT", "/queues/%2F/walk", {"durable": True, "arguments": {"x-max-length": 50}}, "again"
    )
    yield Step("PUT", "/queues/%2F/policed", {"durable": "true", "auto_delete": "false"}, "texts")
    yield Step("PUT", "/queues/%2F/un%2Fusual%20%C3%A9%3F%25%2B", {"durable": True})
    yield Step("PUT", "/queues/walk/nothing", None, "no body")
    yield Step("PUT", "/queues/walk/list", {"durable": True, "arguments": []}, "arguments a list")
    quorum = {"durable": True, "arguments": {"x-queue-type": "quorum", "x-delivery-limit": 5}}
    yield Step("PUT", "/queues/%2F/walk-quorum", quorum)
    stream = {"durable": True, "arguments": {"x-queue-type": "stream"}}
    yield Step("PUT", "/queues/%2F/walk-stream", stream)
    yield Step("PUT", "/exchanges/%2F/walk", {"type": "topic", "durable": True})
    yield Step("PUT", "/exchanges/%2F/walk", {"type": "topic", "durable": True}, "again")
    yield Step("PUT", "/exchanges/%2F/walk-default", {"durable": "true"}, "no type")
    yield Step(
        "PUT",
        "/exchanges/%2F/walk-inner",
        {"type": "fanout", "internal": True, "auto_delete": True, "arguments": {"n": 1, "s": "x"}},
    )
    yield Step("POST", "/bindings/%2F/e/walk/q/walk", {"routing_key": "a.*"})
    yield Step("POST", "/bindings/%2F/e/walk/q/walk", {"routing_key": "a.*"}, "again")
    yield Step("POST", "/bindings/%2F/e/walk/q/walk", {"routing_key": "a~b/c d%é"}, "unusual key")
    yield Step("POST", "/bindings/%2F/e/walk/q/walk", {}, "no key")
    yield Step("POST", "/bindings/%2F/e/walk/q/policed", None, "no body")
    yield Step("POST", "/bindings/%2F/e/walk/e/walk-inner", {"routing_key": "#", "arguments": {}})
    yield Step(
        "POST",
        "/exchanges/%2F/walk/publish",
        publish("a.b", properties={"delivery_mode": 2, "headers": {"h": [1, "t"]}}),
        is_exact=True,
    )
    yield Step("POST", "/exchanges/%2F/walk/publish", publish("nowhere"), "no way", is_exact=True)


def reads() -> Iterator[Step]:
    """Read everything, while clients are connected that publish and consume."""
    for path in SHAPES:
        yield Step("GET", path)
    for path in VALUES:
        yield Step("GET", path, is_exact=True)
    yield Step("HEAD", "/queues/%2F/walk")
    yield Step("HEAD", "/overview")
    yield Step("HEAD", "/queues/%2F/nosuch")
    yield Step("GET", "/queues/%2F/walk", note="compressed", headers={"accept-encoding": "gzip"})
    for accept in ("text/html", "application/json", "*/*", "text/html, */*;q=0.1"):
        yield Step("GET", "/whoami", note=accept, headers={"accept": accept})


def lists() -> Iterator[Step]:
    """Ask for lists by page, sorted, with some columns only."""
    page = "page=1&page_size=2"
    for query in (
        "page=1",
        page,
        "page=2&page_size=2",
        "page=1&page_size=2&sort=name&sort_reverse=true",
        "page=1&pagination=false",
        "page=1&name=walk",
        "page=1&name=WALK&use_regex=false",
        "page=1&name=%5Ewalk%24&use_regex=true",
        "page=1&name=nosuch",
        "sort=name&sort_reverse=true",
        "sort=arguments.x-max-length",
        "sort=nosuch",
        "name=walk",
    ):
        yield Step("GET", f"/queues/%2F?{query}&columns=name,vhost,nosuch", is_exact=True)
    yield Step("GET", "/queues/%2F?sort=&columns=name")
    yield Step("GET", "/queues/%2F/walk?columns=name,arguments.x-max-length", is_exact=True)
    yield Step("GET", "/exchanges?page=1&page_size=3&columns=name,vhost,type", is_exact=True)
    yield Step("GET", "/exchanges/%2F?columns=name", is_exact=True)
    yield Step("GET", "/vhosts?page=1&page_size=1&columns=name", is_exact=True)
    yield Step("GET", "/connections?page=1&page_size=1&columns=user", is_exact=True)
    yield Step("GET", "/channels?page=1&page_size=1&columns=user,number", is_exact=True)
    for query in (
        "page=99&page_size=2",
        "page=0",
        "page=x",
        "page=-1",
        "page=1&page_size=0",
        "page=1&page_size=501",
        "page=1&page_size=x",
        "page=1&name=(&use_regex=true",
        "page=99&name=nosuch",
    ):
        yield Step("GET", f"/queues/%2F?{query}", note="bad", is_exact=True)
    yield Step("GET", "/queues/%2F?disable_stats=true")
    yield Step("GET", "/queues/%2F?disable_stats=true&enable_queue_totals=true")
    yield Step("GET", "/queues/%2F/walk?disable_stats=true")
    ages = "msg_rates_age=60&msg_rates_incr=5&lengths_age=60&lengths_incr=5"
    yield Step("GET", f"/queues/%2F/walk?{ages}")
    yield Step("GET", f"/overview?{ages}")
    yield Step("GET", "/connections/{connection}?data_rates_age=60&data_rates_incr=5")
    yield Step("GET", "/nodes/{node}?node_stats_age=60&node_stats_incr=5")
    yield Step("GET", "/queues/%2F/walk?lengths_age=600000&lengths_incr=1", is_exact=True)
    yield Step("GET", "/queues/%2F/walk?lengths_age=x&lengths_incr=5", note="no number")


def gets() -> Iterator[Step]:
    """Publish and get, rightly and wrongly."""
    path = "/exchanges/%2F/amq.default/publish"
    for number in range(3):
        body = publish("un/usual é?%+", f"message {number}")
        yield Step("POST", path, body, f"message {number}", is_exact=True)
    full = {
        "content_type": "text/plain",
        "content_encoding": "utf-8",
        "headers": {"b": True, "i": 1, "f": 1.5, "l": [1, "x"], "t": {"a": 1}, "s": "x"},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "600000",
        "message_id": "m",
        "timestamp": 1234567890,
        "type": "t",
        "app_id": "a",
        "cluster_id": "cl",
        "nosuch": 1,
    }
    yield Step(
        "POST", path, publish("un/usual é?%+", properties=full), "all properties", is_exact=True
    )
    yield Step("POST", path, publish("un/usual é?%+", "/w==", "base64"), "no text", is_exact=True)
    yield Step("POST", path, publish("un/usual é?%+", "!", "base64"), "no base64", is_exact=True)
    yield Step("POST", path, publish("q", "x", "nosuch"), "no encoding", is_exact=True)
    yield Step("POST", path, {"payload": "x"}, "keys are missing", is_exact=True)
    yield Step("POST", path, b"{", "no JSON", is_exact=True)
    yield Step("POST", path, b"[]", "a list", is_exact=True)
    yield Step("POST", path, publish("q") | {"properties": 1}, "properties no table", is_exact=True)
    wrong = publish("q", properties={"delivery_mode": "x"})
    yield Step("POST", path, wrong, "a property of the wrong type", is_exact=True)
    yield Step("POST", "/exchanges/%2F/nosuch/publish", publish("q"), is_exact=True)
    yield Step("POST", "/exchanges/%2F/walk-inner/publish", publish("q"), "internal", is_exact=True)
    queue = "/queues/%2F/un%2Fusual%20%C3%A9%3F%25%2B/get"
    ask = {"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto"}
    yield Step("POST", queue, ask, "two, put back", is_exact=True)
    yield Step("POST", queue, ask | {"count": "1", "truncate": 3}, "cut", is_exact=True)
    yield Step("POST", queue, ask | {"encoding": "base64"}, "base64", is_exact=True)
    taken = ask | {"ackmode": "ack_requeue_false"}
    yield Step("POST", queue, taken, "two, taken", is_exact=True)
    rejected = ask | {"ackmode": "reject_requeue_true", "count": 1}
    yield Step("POST", queue, rejected, "one, put back by reject", is_exact=True)
    yield Step("POST", queue, ask | {"ackmode": "reject_requeue_false", "count": 9}, is_exact=True)
    yield Step("POST", queue, ask, "empty", is_exact=True)
    yield Step("POST", queue, {"count": 1}, "keys are missing", is_exact=True)
    yield Step("POST", queue, ask | {"count": "x"}, "no count", is_exact=True)
    yield Step("POST", queue, ask | {"encoding": "nosuch"}, "no encoding", is_exact=True)
    yield Step("POST", queue, ask | {"ackmode": "nosuch"}, "no ackmode", is_exact=True)
    yield Step("POST", "/queues/%2F/nosuch/get", ask, is_exact=True)
    yield Step("POST", "/queues/%2F/walk-stream/get", ask, "a stream", is_exact=True)
    yield Step("DELETE", "/queues/%2F/un%2Fusual%20%C3%A9%3F%25%2B/contents")
    yield Step("DELETE", "/queues/%2F/nosuch/contents", is_exact=True)
    yield Step("DELETE", "/queues/%2F/walk-stream/contents", is_exact=True)
    yield Step("POST", "/queues/%2F/policed/actions", {"action": "sync"}, is_exact=True)
    yield Step("POST", "/queues/%2F/policed/actions", {"action": "x"}, "no action", is_exact=True)


def mistakes() -> Iterator[Step]:
    """Ask for what there is not, and send what is wrong."""
    for path in MISSING:
        yield Step("GET", path, is_exact=True)
    for path in DELETED_TWICE:
        yield Step("DELETE", path, note="is not there", is_exact=True)
    for path, body in WRONG_BODIES:
        method = "POST" if path.startswith(("/bindings", "/users/bulk", "/definitions")) else "PUT"
        note = body.decode() if isinstance(body, bytes) else str(body)
        yield Step(method, path, body, note[:80], is_exact=True)
    for path in SHAPES + VALUES:
        if "?" not in path:
            yield Step("PATCH", path)
    for path in ALLOWED:
        yield Step("OPTIONS", path, login=None)
        yield Step("PATCH", path, note="allowed")
    for login in (
        None,
        ("nosuch", "x"),
        ("walker", "wrong"),
        ("blank", ""),
        ("untagged", PASSWORD),
    ):
        name = f"{login[0]}, not let in" if login else "nobody"
        yield Step("GET", "/whoami", note=f"as {name}", login=login, is_exact=True)
        yield Step("GET", "/overview", note=f"as {name}", login=login, is_exact=True)
    for scheme in ("Basic", "Basic !", "Basic Zm9v", "Digest x", "Bearer x", "nonsense"):
        yield Step(
            "GET",
            "/whoami",
            note=scheme,
            login=None,
            headers={"authorization": scheme},
            is_exact=True,
        )
    yield Step("GET", "/whoami", note="as walker", login=("walker", PASSWORD), is_exact=True)
    yield Step("GET", "/whoami", note="as hashed", login=("hashed", "test12"), is_exact=True)


def rights() -> Iterator[Step]:
    """Ask for everything as users with each tag."""
    paths = [path for path in SHAPES + VALUES if "_age=" not in path]
    for name in TAGGED[:-1]:
        for path in paths:
            yield Step("GET", path, note=f"as {name}", login=(name, PASSWORD), is_brief=True)
    walker = ("walker", PASSWORD)
    for path in ("/queues", "/queues/%2F", "/queues/%2F/walk", "/exchanges/%2F", "/bindings/%2F"):
        yield Step("GET", path, note="as walker", login=walker, is_brief=True)
    changes: tuple[tuple[str, str, object], ...] = (
        ("PUT", "/vhosts/forbidden", {}),
        ("DELETE", "/vhosts/walk", None),
        ("PUT", "/users/forbidden", {"password": "x", "tags": ""}),
        ("DELETE", "/users/walker", None),
        ("PUT", "/permissions/walk/walker", {"configure": "", "write": "", "read": ""}),
        ("PUT", "/policies/%2F/forbidden", {"pattern": "^x", "definition": {"max-length": 1}}),
        ("PUT", "/operator-policies/%2F/forbidden", {"pattern": "x", "definition": {}}),
        ("PUT", "/global-parameters/forbidden", {"value": 1}),
        ("PUT", "/cluster-name", {"name": "forbidden"}),
        ("PUT", "/vhost-limits/walk/max-queues", {"value": 5}),
        ("PUT", "/user-limits/walker/max-channels", {"value": 5}),
        ("POST", "/definitions", {}),
        ("POST", "/users/bulk-delete", {"users": []}),
        ("DELETE", "/connections/{connection}", None),
        ("POST", "/rebalance/queues", None),
    )
    for method, path, body in changes:
        for name in ("management", "monitoring"):
            login = (name, PASSWORD)
            yield Step(method, path, body, f"as {name}", login=login, is_exact=True)
    for method, path, body in (
        ("PUT", "/queues/walk/x", {}),
        ("DELETE", "/queues/%2F/walk", None),
        ("POST", "/queues/%2F/walk/get", {"count": 1, "ackmode": "x", "encoding": "auto"}),
        ("POST", "/exchanges/%2F/walk/publish", publish("x")),
    ):
        login = ("management", PASSWORD) if "/walk/x" in path else walker
        yield Step(method, path, body, "other vhost", login=login, is_exact=True)
    low = {"configure": "^mine", "write": "^mine", "read": "^mine"}
    yield Step("PUT", "/permissions/walk/walker", low, "lower")
    for method, path, body in (
        ("PUT", "/queues/walk/other", {}),
        ("DELETE", "/queues/walk/nothing", None),
        ("DELETE", "/queues/walk/nothing/contents", None),
        ("PUT", "/exchanges/walk/other", {}),
        ("DELETE", "/exchanges/walk/amq.direct", None),
        ("POST", "/bindings/walk/e/amq.topic/q/nothing", {"routing_key": "x"}),
        ("POST", "/exchanges/walk/amq.topic/publish", publish("b")),
        (
            "POST",
            "/queues/walk/nothing/get",
            {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
        ),
    ):
        yield Step(method, path, body, "not permitted", login=walker, is_exact=True)


def removals() -> Iterator[Step]:
    """Take away what the walk made."""
    yield Step("DELETE", "/queues/%2F/policed?if-empty=true", is_exact=True)
    yield Step("DELETE", "/queues/%2F/walk?if-unused=true", is_exact=True)
    yield Step("DELETE", "/exchanges/%2F/walk?if-unused=true", is_exact=True)
    for path in (
        "/bindings/%2F/e/walk/q/walk/a.%2A",
        "/bindings/%2F/e/walk/q/walk/a%257Eb%252Fc%2Bd%2525%25C3%25A9",
        "/bindings/%2F/e/walk/q/walk/~",
        "/bindings/%2F/e/walk/q/walk/nosuch",
        "/queues/%2F/walk",
        "/queues/%2F/policed",
        "/queues/%2F/walk-quorum",
        "/queues/%2F/walk-stream",
        "/exchanges/%2F/walk",
        "/exchanges/%2F/walk-default",
        "/policies/%2F/walk",
        "/operator-policies/%2F/walk",
        "/global-parameters/walk",
        "/user-limits/walker/max-channels",
        "/vhost-limits/walk/max-queues",
        "/topic-permissions/walk/walker",
        "/permissions/walk/walker",
        "/users/walker",
        "/vhosts/walk",
        "/auth/attempts/{node}",
    ):
        yield Step("DELETE", path, is_exact=True)
    yield Step("POST", "/users/bulk-delete", {"users": ["hashed", "blank"]}, is_exact=True)
    yield Step("POST", "/rebalance/queues", is_exact=True)
    yield Step("DELETE", "/connections/{connection}", headers={"x-reason": "walked over"})
    yield Step("DELETE", "/reset", is_exact=True)
    yield Step("DELETE", "/reset/{node}", is_exact=True)


def publish(
    key: str, payload: str = "body", encoding: str = "string", properties: object = None
) -> dict[str, object]:
    """Return the body of a publish."""
    return {
        "properties": properties or {},
        "routing_key": key,
        "payload": payload,
        "payload_encoding": encoding,
    }


HASH: Final = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""Of the password `test12`: the example that RabbitMQ's own documentation gives."""

SHAPES: Final = (
    "/overview",
    "/nodes",
    "/nodes/{node}",
    "/nodes/{node}/memory",
    "/vhosts",
    "/vhosts/walk",
    "/vhosts/walk/connections",
    "/vhosts/%2F/connections",
    "/vhosts/%2F/channels",
    "/users",
    "/users/walker",
    "/queues",
    "/queues/%2F",
    "/queues/%2F/walk",
    "/queues/%2F/walk-quorum",
    "/queues/%2F/walk-stream",
    "/queues/%2F/policed",
    "/queues/%2F/exclusive",
    "/exchanges",
    "/exchanges/%2F/walk",
    "/exchanges/%2F/amq.default",
    "/connections",
    "/connections/{connection}",
    "/connections/{connection}/channels",
    "/connections/username/guest",
    "/channels",
    "/channels/{channel}",
    "/consumers",
    "/consumers/%2F",
    "/definitions",
    "/extensions",
    "/feature-flags",
    "/auth/attempts/{node}",
    "/auth/attempts/{node}/source",
    "/global-parameters",
    "/health/checks/port-listener/{amqp_port}",
)
"""Read for the names and types of what comes."""

VALUES: Final = (
    "/cluster-name",
    "/whoami",
    "/users/without-permissions",
    "/users/walker/permissions",
    "/users/walker/topic-permissions",
    "/permissions",
    "/permissions/walk/walker",
    "/topic-permissions",
    "/topic-permissions/walk/walker",
    "/vhosts/walk/permissions",
    "/vhosts/walk/topic-permissions",
    "/user-limits",
    "/user-limits/walker",
    "/vhost-limits",
    "/vhost-limits/walk",
    "/policies",
    "/policies/%2F",
    "/policies/%2F/walk",
    "/operator-policies",
    "/operator-policies/%2F",
    "/operator-policies/%2F/walk",
    "/parameters",
    "/parameters/vhost-limits",
    "/parameters/operator_policy/%2F",
    "/parameters/vhost-limits/walk/limits",
    "/global-parameters/walk",
    "/global-parameters/cluster_name",
    "/bindings/%2F",
    "/bindings/%2F/e/walk/q/walk",
    "/bindings/%2F/e/walk/q/walk/a.%2A",
    "/bindings/%2F/e/walk/q/walk/a%257Eb%252Fc%2Bd%2525%25C3%25A9",
    "/bindings/%2F/e/walk/e/walk-inner",
    "/bindings/%2F/e/amq.default/q/walk",
    "/bindings/%2F/e/nosuch/q/walk",
    "/queues/%2F/walk/bindings",
    "/exchanges/%2F/walk/bindings/source",
    "/exchanges/%2F/walk-inner/bindings/destination",
    "/definitions/%2F",
    "/definitions/walk",
    "/aliveness-test/empty",
    "/healthchecks/node",
    "/healthchecks/node/{node}",
    "/health/checks/alarms",
    "/health/checks/local-alarms",
    "/health/checks/virtual-hosts",
    "/health/checks/node-is-quorum-critical",
    "/health/checks/node-is-mirror-sync-critical",
    "/health/checks/certificate-expiration/1/months",
    "/health/checks/protocol-listener/amqp",
    "/health/checks/protocol-listener/amqp091",
    "/health/checks/protocol-listener/nosuch",
    "/health/checks/port-listener/1",
    "/health/checks/port-listener/x",
    "/health/checks/certificate-expiration/1/nosuch",
    "/health/checks/certificate-expiration/x/days",
)
"""Read for all that they say."""

MISSING: Final = (
    "/nosuch",
    "/nodes/nosuch",
    "/vhosts/nosuch",
    "/vhosts/nosuch/permissions",
    "/vhosts/nosuch/connections",
    "/vhosts/nosuch/channels",
    "/users/nosuch",
    "/users/nosuch/permissions",
    "/permissions/walk/nosuch",
    "/permissions/nosuch/walker",
    "/topic-permissions/nosuch/walker",
    "/topic-permissions/%2F/walker",
    "/user-limits/nosuch",
    "/vhost-limits/nosuch",
    "/policies/nosuch",
    "/policies/%2F/nosuch",
    "/operator-policies/%2F/nosuch",
    "/parameters/nosuch",
    "/parameters/nosuch/%2F",
    "/parameters/vhost-limits/nosuch",
    "/parameters/nosuch/%2F/x",
    "/global-parameters/nosuch",
    "/queues/nosuch",
    "/queues/nosuch/x",
    "/queues/%2F/nosuch",
    "/queues/%2F/nosuch/bindings",
    "/exchanges/nosuch",
    "/exchanges/%2F/nosuch",
    "/exchanges/%2F/nosuch/bindings/source",
    "/bindings/nosuch",
    "/bindings/nosuch/e/walk/q/walk",
    "/bindings/%2F/e/walk/q/walk/nosuch",
    "/connections/nosuch",
    "/connections/nosuch/channels",
    "/connections/username/nosuch",
    "/channels/nosuch",
    "/consumers/nosuch",
    "/definitions/nosuch",
    "/aliveness-test/nosuch",
)

DELETED_TWICE: Final = (
    "/vhosts/nosuch",
    "/users/nosuch",
    "/permissions/walk/nosuch",
    "/permissions/nosuch/walker",
    "/topic-permissions/%2F/walker",
    "/user-limits/walker/max-connections",
    "/user-limits/nosuch/max-connections",
    "/vhost-limits/empty/max-queues",
    "/vhost-limits/nosuch/max-queues",
    "/policies/%2F/nosuch",
    "/operator-policies/%2F/nosuch",
    "/parameters/nosuch/%2F/x",
    "/global-parameters/nosuch",
    "/queues/%2F/nosuch",
    "/queues/nosuch/x",
    "/exchanges/%2F/nosuch",
    "/exchanges/%2F/amq.direct",
    "/exchanges/%2F/amq.default",
    "/bindings/%2F/e/walk/q/nosuch/x",
    "/bindings/%2F/e/amq.default/q/walk/walk",
    "/connections/nosuch",
    "/connections/username/nosuch",
)

_POLICY: Final = {"pattern": "^x", "definition": {"max-length": 1}}
WRONG_BODIES: Final[tuple[tuple[str, object], ...]] = (
    ("/vhosts/wrong", b"{"),
    ("/vhosts/wrong", b"[]"),
    ("/vhosts/wrong", b'"text"'),
    ("/vhosts/wrong", {"tracing": "x"}),
    ("/users/wrong", {}),
    ("/users/wrong", {"tags": ""}),
    ("/users/wrong", {"password": "x"}),
    ("/users/wrong", {"password": "x", "password_hash": HASH, "tags": ""}),
    ("/users/wrong", {"password_hash": "!", "tags": ""}),
    ("/users/wrong", {"password_hash": "AAAA", "tags": ""}),
    ("/users/wrong", {"password_hash": HASH, "tags": "", "hashing_algorithm": "nosuch"}),
    ("/users/wrong", {"password": 5, "tags": ""}),
    ("/users/wrong", {"password": "x", "tags": 5}),
    ("/users/wrong", {"password": "", "tags": ""}),
    ("/users/bulk-delete", {"users": ["nosuch"]}),
    ("/users/bulk-delete", {}),
    ("/permissions/walk/walker", {"configure": "x"}),
    ("/permissions/walk/walker", {"configure": "(", "write": "", "read": ""}),
    ("/permissions/walk/walker", {"configure": 5, "write": "", "read": ""}),
    ("/permissions/nosuch/walker", {"configure": "", "write": "", "read": ""}),
    ("/permissions/walk/nosuch", {"configure": "", "write": "", "read": ""}),
    ("/topic-permissions/walk/walker", {"write": "", "read": ""}),
    ("/topic-permissions/walk/walker", {"exchange": "x", "write": "(", "read": ""}),
    ("/topic-permissions/walk/nosuch", {"exchange": "x", "write": "", "read": ""}),
    ("/user-limits/walker/max-channels", {}),
    ("/user-limits/walker/max-channels", {"value": "x"}),
    ("/user-limits/walker/nosuch", {"value": 5}),
    ("/user-limits/nosuch/max-channels", {"value": 5}),
    ("/vhost-limits/walk/max-queues", {}),
    ("/vhost-limits/walk/max-queues", {"value": "x"}),
    ("/vhost-limits/walk/max-queues", {"value": -5}),
    ("/vhost-limits/walk/nosuch", {"value": 5}),
    ("/vhost-limits/nosuch/max-queues", {"value": 5}),
    ("/policies/%2F/wrong", {}),
    ("/policies/%2F/wrong", {"pattern": "^x"}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": {}}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": "x"}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": {"nosuch": 1}}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": {"max-length": -1}}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": {"max-length": "5"}}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": {"message-ttl": "5"}}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": {"expires": 0}}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": {"overflow": "x"}}),
    ("/policies/%2F/wrong", {"pattern": "^x", "definition": {"dead-letter-exchange": 5}}),
    ("/policies/%2F/wrong", {"pattern": "(", "definition": {"max-length": 1}}),
    ("/policies/%2F/wrong", {"pattern": 5, "definition": {"max-length": 1}}),
    ("/policies/%2F/wrong", _POLICY | {"priority": "a"}),
    ("/policies/%2F/wrong", _POLICY | {"apply-to": "foo"}),
    ("/policies/nosuch/wrong", _POLICY),
    ("/operator-policies/%2F/wrong", {"pattern": "^x", "definition": {"max-priority": 1}}),
    ("/operator-policies/empty/wrong", {"pattern": "^x", "definition": {"overflow": "drop-head"}}),
    ("/parameters/nosuch/%2F/wrong", {"value": {}}),
    ("/parameters/nosuch/%2F/wrong", {}),
    ("/parameters/vhost-limits/nosuch/limits", {"value": {}}),
    ("/global-parameters/wrong", {}),
    ("/cluster-name", {}),
    ("/cluster-name", {"name": 5}),
    ("/queues/%2F/wrong", b"{"),
    ("/queues/%2F/wrong", b"[]"),
    ("/queues/%2F/wrong", {"durable": "x"}),
    ("/queues/%2F/wrong", {"durable": 1}),
    ("/queues/%2F/wrong", {"auto_delete": "x"}),
    ("/queues/%2F/wrong", {"arguments": "x"}),
    ("/queues/%2F/wrong", {"arguments": {"x-max-length": -1}}),
    ("/queues/%2F/wrong", {"arguments": {"x-max-length": "x"}}),
    ("/queues/%2F/wrong", {"arguments": {"x-queue-type": "nosuch"}}),
    ("/queues/%2F/wrong", {"arguments": {"x": None}}),
    ("/queues/%2F/wrong", {"arguments": {"x-queue-type": "quorum"}, "durable": False}),
    ("/queues/%2F/walk", {"durable": False}),
    ("/queues/%2F/walk", {"durable": True}),
    ("/queues/%2F/amq.reserved", {}),
    ("/queues/nosuch/x", {}),
    ("/exchanges/%2F/wrong", {"type": "nosuch"}),
    ("/exchanges/%2F/wrong", {"type": 5}),
    ("/exchanges/%2F/wrong", {"durable": "x"}),
    ("/exchanges/%2F/walk", {"type": "direct", "durable": True}),
    ("/exchanges/%2F/amq.reserved", {}),
    ("/exchanges/%2F/amq.default", {"type": "direct"}),
    ("/exchanges/nosuch/x", {}),
    ("/bindings/%2F/e/walk/q/nosuch", {}),
    ("/bindings/%2F/e/nosuch/q/walk", {}),
    ("/bindings/%2F/e/walk/e/nosuch", {}),
    ("/bindings/%2F/e/walk/q/walk", {"arguments": "x"}),
    ("/bindings/%2F/e/amq.default/q/walk", {"routing_key": "x"}),
    ("/bindings/nosuch/e/walk/q/walk", {}),
    ("/definitions", b"{"),
    ("/definitions", b"[]"),
    ("/definitions", {"queues": [{"name": "x", "vhost": "nosuch"}]}),
    ("/definitions", {"permissions": [{"user": "nosuch", "vhost": "/"}]}),
    ("/definitions/nosuch", {}),
    ("/definitions", {"vhosts": [{"name": "defined"}], "nosuch": 1}),
)

ALLOWED: Final = (
    "/definitions",
    "/definitions/%2F",
    "/vhosts/walk",
    "/users/walker",
    "/users/bulk-delete",
    "/permissions/walk/walker",
    "/topic-permissions/walk/walker",
    "/user-limits/walker/max-channels",
    "/vhost-limits/walk/max-queues",
    "/policies/%2F/walk",
    "/operator-policies/%2F/walk",
    "/parameters/vhost-limits/walk/limits",
    "/global-parameters/walk",
    "/cluster-name",
    "/queues/%2F",
    "/queues/%2F/walk",
    "/queues/%2F/walk/contents",
    "/queues/%2F/walk/get",
    "/queues/%2F/walk/actions",
    "/exchanges/%2F/walk",
    "/exchanges/%2F/walk/publish",
    "/bindings/%2F/e/walk/q/walk",
    "/bindings/%2F/e/walk/q/walk/a.%2A",
    "/connections/{connection}",
    "/connections/username/guest",
    "/channels/{channel}",
    "/auth/attempts/{node}",
    "/rebalance/queues",
    "/reset",
    "/nosuch",
)
"""Asked for the methods that they have."""
