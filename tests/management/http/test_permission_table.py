"""Every route, asked by users with every tag and every right: served or refused as documented.

The routes come from the server, so a new one is tested too. One that needs a right of AMQP must be
in the table `NEEDS`, or the test of its kind fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Final
from urllib.parse import urlsplit

import pytest

from amqp_server.management.http.routes import Route
from tests.limits import HANG_SECONDS
from tests.management.conftest import ManagementServer, basic
from tests.management.http import scene as words
from tests.management.http.scene import VHOST, Scene
from tests.management.http.who_may import ALL, MEMBERS, TAGS, known_routes, who_may

RIGHTS: Final[dict[str, frozenset[str] | None]] = {
    "norow": None,
    "nothing": frozenset(),
    "configure": frozenset({"configure"}),
    "write": frozenset({"write"}),
    "read": frozenset({"read"}),
    "all": frozenset({"configure", "write", "read"}),
}
"""What a user may do in the virtual host; None: it has no row of permissions there."""
_QUEUE: Final = "/api/queues/{vhost}/{name}"
_EXCHANGE: Final = "/api/exchanges/{vhost}/{name}"
_TO_QUEUE: Final = "/api/bindings/{vhost}/e/{source}/q/{destination}"
_TO_EXCHANGE: Final = "/api/bindings/{vhost}/e/{source}/e/{destination}"
PUBLISH: Final = f"{_EXCHANGE}/publish"
"""Answers 400 to who may not write there, with the text of AMQP, as RabbitMQ does."""
NEEDS: Final[dict[tuple[str, str], set[str]]] = {
    # It opens a channel there: a row is enough, and needed even by administrators.
    ("GET", "/api/aliveness-test/{vhost}"): set(),
    ("PUT", _QUEUE): {"configure"},
    ("DELETE", _QUEUE): {"configure"},
    ("DELETE", f"{_QUEUE}/contents"): {"read"},
    ("POST", f"{_QUEUE}/get"): {"read"},
    ("GET", f"{_QUEUE}/messages"): {"read"},
    ("PUT", f"{_QUEUE}/groups/{{group}}"): {"read"},
    ("PUT", f"{_QUEUE}/pause"): {"configure"},
    ("PUT", f"{_QUEUE}/resume"): {"configure"},
    ("POST", f"{_QUEUE}/replay"): {"read", "write"},
    ("POST", f"{_QUEUE}/dead-letters/return"): {"read", "write"},
    ("POST", f"{_QUEUE}/move"): {"read", "write"},
    ("GET", f"{_EXCHANGE}/delayed"): {"read"},
    ("DELETE", f"{_EXCHANGE}/delayed"): {"configure"},
    ("DELETE", f"{_EXCHANGE}/delayed/{{offset}}"): {"configure"},
    ("PUT", _EXCHANGE): {"configure"},
    ("DELETE", _EXCHANGE): {"configure"},
    ("POST", PUBLISH): {"write"},
    ("POST", _TO_QUEUE): {"read", "write"},
    ("DELETE", f"{_TO_QUEUE}/{{properties_key}}"): {"read", "write"},
    ("POST", _TO_EXCHANGE): {"read", "write"},
    ("DELETE", f"{_TO_EXCHANGE}/{{properties_key}}"): {"read", "write"},
}
"""Rights of AMQP that routes need beside the tag: docs/management.md."""
OWN: Final = {
    ("DELETE", "/api/connections/{name}"),
    ("DELETE", "/api/connections/username/{user}"),
}
"""What management users may do to their own connections; these are another user's."""
ABSENT: Final = (
    "/api/transfers/{id}",
    f"{_EXCHANGE}/delayed/{{offset}}",
    "/api/shovels/{vhost}/{name}",
    "/api/shovels/vhost/{vhost}/{name}",
    "/api/shovels/vhost/{vhost}/{name}/restart",
)
"""Paths to what nobody sees, because it is not there: 404 for all who may come so far."""


def name_of(tag: str, right: str) -> str:
    """Return the user with a tag and a right."""
    return f"{tag}-{right}"


USERS: Final = [(tag, right) for tag in TAGS for right in RIGHTS]


@pytest.fixture(scope="module")
def scene(shared_management_server: ManagementServer) -> Iterator[Scene]:
    """Give a broker with the objects, and a user for each tag and right."""
    server = shared_management_server
    found = Scene(server)
    found.make()
    for tag, right in USERS:
        server.add_user(name_of(tag, right), *([] if tag == "none" else [tag]))
    _grant(server)
    yield found
    found.close()


def _grant(server: ManagementServer) -> None:
    """Give the users their rights; a deleted virtual host has taken them along."""
    for tag, right in USERS:
        granted = RIGHTS[right]
        if granted is not None:
            row = {name: ".*" if name in granted else "" for name in ("configure", "write", "read")}
            server.ask("permissions.set", vhost=VHOST, user=name_of(tag, right), **row)


class Asker:
    """A connection that sends requests as given."""

    def __init__(self, server: ManagementServer, headers: dict[str, str]) -> None:
        parts = urlsplit(server.url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_SECONDS)
        self._headers = {**headers, "Content-Type": "application/json"}

    def ask(self, scene: Scene, route: Route) -> tuple[int, str]:
        """Return status and body of an answer; of streams, which have no end, no body."""
        body = scene.body_of(route)
        octets = None if body is None else json.dumps(body)
        self._connection.request(route.method, scene.path_of(route), octets, self._headers)
        response = self._connection.getresponse()
        if response.headers.get_content_type() == "text/event-stream":
            response.close()
            self._connection.close()
            return response.status, ""
        return response.status, response.read().decode()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def may(route: Route, tag: str, right: str) -> bool:
    """Return whether a user is served."""
    if tag not in MEMBERS[who_may(route)]:
        return False
    granted, needed = RIGHTS[right], NEEDS.get((route.method, route.path))
    if needed is not None:
        return granted is not None and needed <= granted
    if (route.method, route.path) in OWN:
        return tag == "administrator"
    if route.path.startswith("/api/connections/") or route.path == "/api/channels/{name}":
        return tag in ("monitoring", "administrator")
    return not route.is_vhost_checked or granted is not None or tag == "administrator"


def hidden_words(tag: str, right: str) -> set[str]:
    """Return the words that no answer may show to a user."""
    granted = RIGHTS[right]
    is_admin, is_monitor = tag == "administrator", tag in ("monitoring", "administrator")
    sees_vhost = is_admin or granted is not None
    hidden = {
        words.OBJECT: not sees_vhost,
        words.BODY: granted is None or "read" not in granted,
        words.PARAMETER: not (is_admin or (tag == "policymaker" and sees_vhost)),
        words.GLOBAL: tag not in ("policymaker", "administrator"),
        words.PERMISSION: not is_admin,
        words.CLIENT: not is_monitor,
    }
    if tag == "none":
        return {*hidden, VHOST}
    return {word for word, is_hidden in hidden.items() if is_hidden}


def test_routes_that_change_a_virtual_host_say_which_right_they_need() -> None:
    unsafe = {
        (route.method, route.path)
        for route in known_routes()
        if route.method != "GET" and who_may(route) == ALL
    }

    assert {key for key in unsafe - NEEDS.keys() if key[1] not in ABSENT} == OWN


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("right", RIGHTS)
def test_it_is_refused_or_served_and_shows_nothing_else(
    tag: str, right: str, scene: Scene, shared_management_server: ManagementServer
) -> None:
    server = shared_management_server
    asker = Asker(server, {"Authorization": basic(name_of(tag, right))})
    hidden = hidden_words(tag, right)
    wrong = []
    # What is refused first: then all objects are still there.
    for route in sorted(known_routes(), key=lambda each: may(each, tag, right)):
        is_served = may(route, tag, right)
        if is_served and route.method != "GET" and right not in ("norow", "all"):
            needed = NEEDS.get((route.method, route.path))
            if needed is None or len(needed) > 1:
                continue
        status, body = asker.ask(scene, route)
        is_amqp_text = route.path == PUBLISH and status == 400 and "403 ACCESS_REFUSED" in body
        is_refused = status == 401 or (is_amqp_text and RIGHTS[right] is not None)
        is_done = 200 <= status < 300 or (route.path in ABSENT and status == 404)
        if not (is_done if is_served else is_refused):
            wrong.append((route.method, route.path, status, body))
        if not is_amqp_text:
            wrong += [(route.method, route.path, status, word) for word in hidden if word in body]
        if is_served and route.method == "DELETE":
            scene.make()
            if route.path.startswith("/api/vhosts/"):
                _grant(server)
    asker.close()

    assert not wrong
    for path in ("queues", "exchanges", "policies"):
        assert server.get(f"/api/{path}/{VHOST}/{words.OBJECT}").status == 200, path


@pytest.mark.parametrize("token", [None, "", "x" * 43, "other"])
def test_a_cookie_without_its_token_changes_nothing(
    token: str | None, scene: Scene, shared_management_server: ManagementServer
) -> None:
    server = shared_management_server
    login = {"username": "guest", "password": "guest"}
    begun, other = (server.post("/session", login, user=None) for _ in range(2))
    headers = {"Cookie": begun.headers["set-cookie"].split(";")[0]}
    if token is not None:
        headers["X-CSRF-Token"] = other.json["csrf_token"] if token == "other" else token
    asker = Asker(server, headers)
    unsafe = [route for route in known_routes() if route.method != "GET"]
    refused = {(route.method, route.path): asker.ask(scene, route)[0] for route in unsafe}
    asker.close()

    assert {key: status for key, status in refused.items() if status != 401} == {}
    assert server.get("/session", user=None, headers=headers).status == 200, "still logged in"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "get", "PUTT"])
def test_other_methods_of_every_path_show_nothing(
    method: str, scene: Scene, shared_management_server: ManagementServer
) -> None:
    parts = urlsplit(shared_management_server.url)
    wrong = []
    for path in sorted({scene.path_of(route) for route in known_routes()}):
        if path in ("/api/events", "/api/livelog"):
            continue
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_SECONDS)
        connection.request(method, path)
        response = connection.getresponse()
        status, body = response.status, response.read()
        connection.close()
        expected = {"HEAD": (200, 401, 405), "OPTIONS": (200,)}.get(method, (405, 400))
        if body or status not in expected:
            wrong.append((path, status, body))

    assert not wrong
