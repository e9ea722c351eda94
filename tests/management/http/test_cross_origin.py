"""A page of another site, in the browser of an administrator, changes nothing.

The requests are those that browsers send: with the password that they remember, and without the
headers `Sec-Fetch-*`, which they keep for HTTPS and for names of this machine.
"""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import urlsplit

import pytest

from amqp_server.management.http.cross_origin import cross_origin_headers, is_from_elsewhere
from tests.management.conftest import ManagementServer, basic

NAME: Final = "rabbit.corp.example"
"""Name of the server that its browser knows."""
EVIL: Final = "http://evil.example"
BOUNDARY: Final = "----WebKitFormBoundaryA1"


def headers_of(server: ManagementServer, **others: str) -> dict[str, str]:
    """Return what a browser sends to the server's name over plain HTTP, with a remembered login."""
    sent = {name.replace("_", "-"): value for name, value in others.items()}
    port = urlsplit(server.url).port
    return {"Host": f"{NAME}:{port}", "Authorization": basic("boss"), **sent}


def definitions_form() -> bytes:
    """Return a form that imports an administrator."""
    users = [{"name": "mallory", "password": "mallory", "tags": "administrator"}]
    return (
        f"--{BOUNDARY}\r\n"
        'Content-Disposition: form-data; name="file"; filename="d.json"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
        f"{json.dumps({'users': users})}\r\n--{BOUNDARY}--\r\n"
    ).encode()


MULTIPART: Final = f"multipart/form-data; boundary={BOUNDARY}"


@pytest.fixture(scope="module")
def server(shared_management_server: ManagementServer) -> ManagementServer:
    """Return a server with the administrator `boss`."""
    shared_management_server.add_user("boss", "administrator", vhosts=["/"])
    return shared_management_server


def names_of_users(server: ManagementServer) -> set[str]:
    return {user["name"] for user in server.get("/api/users").json}


@pytest.mark.parametrize("origin", [EVIL, "null", "https://" + NAME, f"http://{NAME}:80"])
def test_a_form_of_another_site_creates_no_administrator(
    server: ManagementServer, origin: str
) -> None:
    headers = headers_of(server, Origin=origin, Content_Type=MULTIPART)

    reply = server.post("/api/definitions", definitions_form(), user=None, headers=headers)

    assert reply.status == 401, reply
    assert "--management-cors-origin" in reply.json["reason"]
    assert "mallory" not in names_of_users(server)


def test_a_text_of_another_site_deletes_no_user(server: ManagementServer) -> None:
    server.add_user("victim")
    headers = headers_of(server, Origin=EVIL, Content_Type="text/plain;charset=UTF-8")

    reply = server.post("/api/users/bulk-delete", {"users": ["victim"]}, user=None, headers=headers)

    assert reply.status == 401, reply
    assert "victim" in names_of_users(server)


def test_a_form_of_another_site_logs_nobody_in(server: ManagementServer) -> None:
    headers = headers_of(server, Origin=EVIL, Content_Type="text/plain")
    body = {"username": "boss", "password": "boss"}

    reply = server.post("/session", body, user=None, headers=headers)

    assert (reply.status, "set-cookie" in reply.headers) == (401, False)


def test_forms_of_programs_are_taken(server: ManagementServer) -> None:
    """`curl -F file=@d.json` and `curl -d` send no origin."""
    headers = headers_of(server, Content_Type=MULTIPART)
    form = definitions_form().replace(b"mallory", b"of-curl")

    imported = server.post("/api/definitions", form, user=None, headers=headers)
    headers["Content-Type"] = "application/x-www-form-urlencoded"
    deleted = server.post(
        "/api/users/bulk-delete", {"users": ["of-curl"]}, user=None, headers=headers
    )

    assert (imported.status, deleted.status) == (204, 204)


def test_a_form_of_the_own_page_is_taken(server: ManagementServer) -> None:
    headers = headers_of(server, Content_Type=MULTIPART)
    headers["Origin"] = f"http://{headers['Host']}"
    form = definitions_form().replace(b"mallory", b"of-page")

    assert server.post("/api/definitions", form, user=None, headers=headers).status == 204
    assert "of-page" in names_of_users(server)


def test_the_page_works_behind_a_proxy_that_changes_the_host(server: ManagementServer) -> None:
    """The page names its token in a header, which no other site can send without being allowed."""
    headers = {"Origin": "http://proxy.example:8080", "X-CSRF-Token": ""}
    body = {"username": "boss", "password": "boss"}
    begun = server.post("/session", body, user=None, headers=headers)
    assert begun.status == 200, begun

    cookie = begun.headers["set-cookie"].partition(";")[0]
    headers |= {"Cookie": cookie, "X-CSRF-Token": begun.json["csrf_token"]}
    assert server.put("/api/queues/%2F/proxied", user=None, headers=headers).status == 201
    headers["X-CSRF-Token"] = "forged"
    assert server.delete("/api/queues/%2F/proxied", user=None, headers=headers).status == 401


H: Final = f"{NAME}:15672"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": H},
        {"Host": H, "Sec-Fetch-Site": "none"},
        {"Host": H, "Sec-Fetch-Site": "same-origin", "Origin": EVIL},
        {"Host": H, "Origin": f"http://{H}"},
        {"Host": H.upper(), "Origin": f"http://{H}"},
        {"Host": NAME, "Origin": f"http://{NAME}"},
        {"Host": NAME, "Origin": f"https://{NAME}"},
        {"Host": f"{NAME}:80", "Origin": f"http://{NAME}"},
        {"Host": f"{NAME}:443", "Origin": f"https://{NAME}"},
        {"Host": "[::1]:15672", "Origin": "http://[::1]:15672"},
        {"Host": "[::1]", "Origin": "http://[::1]"},
        {"Host": "127.0.0.1:15672", "Origin": f"http://{H}", "X-Forwarded-Host": H},
        {"Host": "up", "Origin": f"http://{H}", "X-Forwarded-Host": f"{H}, inner.example"},
        {"Host": "up", "Origin": "http://proxy.example", "X-CSRF-Token": "x"},
        {"Host": H, "Origin": "https://tools.example"},
        {"Host": H, "Origin": "https://tools.example", "Sec-Fetch-Site": "cross-site"},
    ],
)
def test_programs_and_own_pages_may_change_something(headers: dict[str, str]) -> None:
    assert not is_from_elsewhere(("https://tools.example",), "POST", headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": H, "Sec-Fetch-Site": "cross-site", "Origin": EVIL},
        {"Host": H, "Sec-Fetch-Site": "cross-site", "Origin": EVIL, "X-CSRF-Token": "x"},
        # A page of another port of the same host.
        {"Host": H, "Sec-Fetch-Site": "same-site", "Origin": f"http://{NAME}:8000"},
        {"Host": H, "Sec-Fetch-Site": "same-site"},
        {"Host": H, "Origin": f"http://{NAME}:8000"},
        {"Host": H, "Sec-Fetch-Site": ""},
        {"Host": H, "Origin": "null"},
        {"Host": H, "Origin": ""},
        {"Host": H, "Origin": EVIL},
        {"Host": H, "Origin": f"http://{NAME}"},
        {"Host": NAME, "Origin": f"http://{H}"},
        {"Host": f"{NAME}:443", "Origin": f"http://{NAME}"},
        {"Host": H, "Origin": f"http://{H}.evil.example"},
        {"Host": H, "Origin": f"http://evil.example@{H}"},
        {"Host": H, "Origin": f"ftp://{H}"},
        {"Host": H, "Origin": H},
        {"Host": H, "Origin": f"http://{H}/"},
        {"Host": H, "Origin": f"http://{NAME}:x"},
        {"Host": "[::1]:15672", "Origin": "http://[::2]:15672"},
        {"Host": H, "Origin": EVIL, "X-Forwarded-Host": H},
        {"Origin": EVIL},
    ],
)
def test_pages_of_others_may_not(headers: dict[str, str]) -> None:
    for method in ("POST", "PUT", "DELETE"):
        assert is_from_elsewhere(("https://tools.example",), method, headers)
    assert not is_from_elsewhere((), "GET", headers)


def test_headers_that_are_no_text_are_not_sent_back() -> None:
    headers = {"Origin": EVIL, "Access-Control-Request-Headers": "x-a\udcff"}

    found = cross_origin_headers(("*",), headers, "GET")

    assert "access-control-allow-headers" not in found
    assert found["access-control-allow-methods"] == "GET"
