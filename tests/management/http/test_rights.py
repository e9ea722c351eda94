"""Who may ask what: every route, asked by users of every tag, with and without a permission.

The table says who may, by path and not by code. A route that it does not have is held to what it
declares itself.
"""

from __future__ import annotations

from http.client import HTTPConnection
from urllib.parse import quote, urlsplit

import pytest

from amqp_server.management.http.routes import Route
from tests.limits import HANG_SECONDS
from tests.management.conftest import ManagementServer, basic
from tests.management.http.who_may import (
    ALL,
    HIDDEN_REASON,
    MEMBERS,
    REASONS,
    TAGS,
    WHO,
    known_routes,
    who_may,
)


def path_of(route: Route, vhost: str, user: str) -> str:
    """Return a path of a route, with a virtual host, a user, and names of nothing."""
    names = {"{vhost}": vhost}
    if "/connections/" in route.path:
        names["{user}"] = user
    parts = [
        part if not part.startswith("{") else quote(names.get(part, "nothing"))
        for part in route.path.split("/")
    ]
    return "/".join(parts)


@pytest.fixture(scope="module")
def server(shared_management_server: ManagementServer) -> ManagementServer:
    """Give a broker with a user for each tag, who sees one of two virtual hosts."""
    for vhost in ("seen", "hidden"):
        shared_management_server.ask("vhosts.add", name=vhost, grants_default_user=False)
    for tag in TAGS:
        tags = () if tag == "none" else (tag,)
        shared_management_server.add_user(tag, *tags, vhosts=["seen"])
    return shared_management_server


class Asker:
    """A user's connection.

    Args:
        server: Server that is asked.
        user: Name of the user.
    """

    def __init__(self, server: ManagementServer, user: str) -> None:
        parts = urlsplit(server.url)
        self._connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_SECONDS)
        self._headers = {"Authorization": basic(user)}

    def ask(self, method: str, path: str) -> tuple[int, bytes]:
        """Return status and body of an answer."""
        body = None if method == "GET" else b"{}"
        self._connection.request(method, path, body, self._headers)
        response = self._connection.getresponse()
        if response.headers.get_content_type() == "text/event-stream":
            # It has no end.
            response.close()
            self._connection.close()
            return response.status, b""
        return response.status, response.read()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def test_the_paths_of_the_table_exist() -> None:
    paths = {route.path for route in known_routes()}

    assert WHO.keys() <= paths, WHO.keys() - paths


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_allows_what_it_should_and_nothing_else(tag: str, server: ManagementServer) -> None:
    asker = Asker(server, tag)
    wrong = []
    for route in known_routes():
        needed = who_may(route)
        may = tag in MEMBERS[needed]
        if may and route.method != "GET":
            # It would be done. That it may be done is what the tests of each resource show.
            continue
        status, body = asker.ask(route.method, path_of(route, "seen", tag))
        reason = "" if may else REASONS[ALL if tag == "none" else needed]
        if may and status in (401, 403, 405, 500):
            wrong.append((route.method, route.path, status, body))
        if not may and (status != 401 or reason.encode() not in body):
            wrong.append((route.method, route.path, status, body))
    asker.close()

    assert not wrong


@pytest.mark.parametrize("tag", TAGS[1:])
def test_only_administrators_reach_a_virtual_host_without_a_permission(
    tag: str, server: ManagementServer
) -> None:
    asker = Asker(server, tag)
    wrong = []
    for route in known_routes():
        if not route.is_vhost_checked or who_may(route) != ALL:
            continue
        may = tag == "administrator"
        if may and route.method != "GET":
            continue
        status, body = asker.ask(route.method, path_of(route, "hidden", tag))
        is_refused = status == 401 and HIDDEN_REASON.encode() in body
        if is_refused is may:
            wrong.append((route.method, route.path, status, body))
    asker.close()

    assert not wrong


def test_a_virtual_host_that_does_not_exist_is_404(server: ManagementServer) -> None:
    assert server.get("/api/queues/none").json["error"] == "Object Not Found"
    reply = server.put("/api/queues/none/q")
    assert (reply.status, reply.json) == (404, {"error": "not_found", "reason": "vhost_not_found"})


@pytest.mark.parametrize(
    ("tag", "queues", "vhosts"),
    [
        ("management", {"seen"}, {"seen"}),
        ("policymaker", {"seen"}, {"seen"}),
        ("monitoring", {"seen"}, {"/", "seen", "hidden"}),
        ("administrator", {"seen", "hidden"}, {"/", "seen", "hidden"}),
    ],
)
def test_lists_have_what_a_user_sees(
    tag: str, queues: set[str], vhosts: set[str], server: ManagementServer
) -> None:
    for vhost in ("seen", "hidden"):
        arguments = {"durable": True, "auto_delete": False, "arguments": {}}
        server.ask("queues.declare", vhost=vhost, name="q", **arguments)

    assert {each["vhost"] for each in server.get("/api/queues", user=tag).json} == queues
    assert {each["name"] for each in server.get("/api/vhosts", user=tag).json} == vhosts
    assert {each["vhost"] for each in server.get("/api/exchanges", user=tag).json} - {"/"} == queues


def test_an_amqp_permission_is_needed_to_change_something(server: ManagementServer) -> None:
    server.ask("vhosts.add", name="narrow", grants_default_user=False)
    server.ask(
        "queues.declare", vhost="narrow", name="q", durable=True, auto_delete=False, arguments={}
    )
    server.add_user("reader", "management")
    rights = {"configure": "", "write": "", "read": ".*"}
    server.ask("permissions.set", vhost="narrow", user="reader", **rights)

    for method, path in (
        ("PUT", "/api/queues/narrow/new"),
        ("DELETE", "/api/queues/narrow/q"),
        ("PUT", "/api/exchanges/narrow/new"),
        ("DELETE", "/api/exchanges/narrow/amq.direct"),
    ):
        reply = server.request(method, path, {}, user="reader")
        expected = {"error": "not_authorised", "reason": "Access refused."}
        assert (reply.status, reply.json) == (401, expected), path
    assert server.delete("/api/queues/narrow/q/contents", user="reader").status == 204
    assert server.get("/api/queues/narrow/q", user="reader").status == 200


def test_an_administrator_without_a_permission_sees_but_changes_nothing(
    server: ManagementServer,
) -> None:
    assert server.get("/api/queues/hidden", user="administrator").status == 200
    reply = server.put("/api/queues/hidden/mine", user="administrator")
    assert (reply.status, reply.json["reason"]) == (401, "Access refused.")


def test_free_tags_give_nothing_and_are_kept(server: ManagementServer) -> None:
    server.add_user("free", "impersonator", "ops")

    assert server.get("/api/overview", user="free").json["reason"] == "Not management user"
