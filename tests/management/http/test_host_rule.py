"""Names that a page of another site has made to mean this server (DNS rebinding) get nothing."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from amqp_server.management.http.answers import ApiError
from amqp_server.management.http.host_rule import HostRule
from tests.management.conftest import ManagementServer, Reply, StartManagementServer, basic
from tests.management.tools.test_attacks import exchange, status_of

REBOUND: Final = "evil.example"
WITHOUT_LOGIN: Final = (
    "/api/version",
    "/api/auth",
    "/api/health/checks/is-in-service",
    "/api/health/checks/ready-to-serve-clients",
)


@pytest.fixture(scope="module")
def server(shared_management_server: ManagementServer) -> ManagementServer:
    """Return a server with the administrator `boss`."""
    shared_management_server.add_user("boss", "administrator")
    return shared_management_server


def get(server: ManagementServer, path: str, host: str, **options: Any) -> Reply:  # noqa: ANN401
    """Ask by a name of the server, as a client does that has its port."""
    port = urlsplit(options.get("url", server.url)).port
    return server.get(path, headers={"Host": f"{host}:{port}"}, **options)


@pytest.mark.parametrize(
    "host",
    [REBOUND, "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1%.evil.example", "x"],
)
def test_guest_does_not_log_in_by_a_name_of_others(server: ManagementServer, host: str) -> None:
    reply = get(server, "/api/whoami", host)

    assert (reply.status, reply.json["error"]) == (421, "misdirected_request")
    for word in (f"'{host}:", "'guest'", "--management-hosts", "localhost"):
        assert word in reply.json["reason"]
    body = {"username": "guest", "password": "guest"}
    begun = server.post("/session", body, user=None, headers={"Host": host})
    assert (begun.status, "set-cookie" in begun.headers) == (421, False)


def test_a_session_of_guest_does_not_work_by_such_a_name(server: ManagementServer) -> None:
    body = {"username": "guest", "password": "guest"}
    cookie = server.post("/session", body, user=None).headers["set-cookie"].partition(";")[0]

    for path in ("/session", "/api/whoami"):
        headers = {"Host": REBOUND, "Cookie": cookie}
        assert server.get(path, user=None, headers=headers).status == 421
        # The session goes on for those who have it.
        assert server.get(path, user=None, headers={"Cookie": cookie}).status == 200


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "app.localhost", "127.0.0.1", "10.1.2.3", "[::1]", "[fe80::1]"],
)
def test_guest_logs_in_by_addresses_and_names_of_this_machine(
    server: ManagementServer, host: str
) -> None:
    assert get(server, "/api/whoami", host).status == 200
    assert get(server, "/api/version", host, user=None).status == 200
    assert get(server, "/metrics", host, user=None, url=server.metrics_url).status == 200


@pytest.mark.parametrize("path", WITHOUT_LOGIN)
def test_what_needs_no_login_is_not_for_such_a_name(server: ManagementServer, path: str) -> None:
    reply = get(server, path, REBOUND, user=None)

    assert (reply.status, reply.json["error"]) == (421, "misdirected_request")
    assert "log in" in reply.json["reason"]
    # Compose services and proxies have such names; with a login they work.
    assert get(server, path, REBOUND, user="boss").status == 200
    assert get(server, path, REBOUND, user="boss", password="no").status == 401
    assert get(server, path, "localhost", user=None).status == 200


def test_other_users_log_in_by_any_name(server: ManagementServer) -> None:
    for host in ("rabbit.corp.example", "broker"):
        assert get(server, "/api/overview", host, user="boss").status == 200
        body = {"username": "boss", "password": "boss"}
        assert server.post("/session", body, user=None, headers={"Host": host}).status == 200


def test_the_page_is_there_by_any_name(server: ManagementServer) -> None:
    """Its files are the same for everyone, and it has to show the form of a login."""
    assert get(server, "/", "rabbit.corp.example", user=None).status == 200
    assert get(server, "/session", "rabbit.corp.example", user=None).status == 401


def test_a_client_without_a_host_is_no_browser(server: ManagementServer) -> None:
    """`option httpchk` of HAProxy asks so."""
    answer = exchange(server, b"GET /api/health/checks/is-in-service HTTP/1.0\r\n\r\n")

    assert status_of(answer) == 200


def test_octets_in_the_name_are_refused_in_words(server: ManagementServer) -> None:
    login = b"Authorization: " + basic("guest").encode()
    answer = exchange(
        server,
        b"GET /api/whoami HTTP/1.1\r\nHost: \xff<x>\r\n" + login + b"\r\nConnection: close\r\n\r\n",
    )

    assert status_of(answer) == 421


def test_metrics_of_this_machine_are_not_for_such_a_name(server: ManagementServer) -> None:
    url = server.metrics_url
    reply = get(server, "/metrics/per-object", REBOUND, user=None, url=url)

    assert (reply.status, reply.json["error"]) == (421, "misdirected_request")
    # As a service of Docker Compose.
    assert get(server, "/metrics/per-object", "broker", user=None, url=url).status == 200


def test_with_a_list_of_names_it_holds_for_every_request(
    start_management_server: StartManagementServer,
) -> None:
    server = start_management_server("--management-hosts", "rabbit.example, *.corp.example")
    server.add_user("boss", "administrator")

    for host in ("rabbit.example", "RABBIT.example", "a.b.corp.example", "localhost", "127.0.0.1"):
        for user in ("boss", "guest"):
            assert get(server, "/api/whoami", host, user=user).status == 200
        assert get(server, "/api/version", host, user=None).status == 200
        assert get(server, "/metrics", host, user=None, url=server.metrics_url).status == 200
    for host in (REBOUND, "corp.example", "xcorp.example", "a.rabbit.example", "broker"):
        for path in ("/api/whoami", "/", "/api/version", "/session", "/no-such"):
            reply = get(server, path, host, user="boss")
            assert (reply.status, reply.json["error"]) == (421, "misdirected_request"), path
        assert server.request("OPTIONS", "/api/whoami", headers={"Host": host}).status == 421
        assert get(server, "/metrics", host, user=None, url=server.metrics_url).status == 421


def test_where_guest_may_log_in_from_anywhere_its_name_does_not_matter(
    start_management_server: StartManagementServer,
) -> None:
    server = start_management_server("--guest-from-anywhere")

    assert get(server, "/api/whoami", "broker").status == 200


def test_prometheus_asks_from_other_machines_by_any_name() -> None:
    rule = HostRule((), guest_from_anywhere=False)
    headers = {"Host": "rabbit.corp.example:15692"}

    rule.check_scrape(headers, "192.0.2.7")
    for here in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        with pytest.raises(ApiError, match="421"):
            rule.check_scrape(headers, here)
        rule.check_scrape({"Host": "rabbit:15692"}, here)
        HostRule(("*",), guest_from_anywhere=False).check_scrape(headers, here)
