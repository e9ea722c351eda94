"""Files of the page."""

from __future__ import annotations

import gzip

import pytest

from amqp_server.management.resources.page import DIRECTORY
from tests.management.conftest import ManagementServer

INDEX = (DIRECTORY / "index.html").read_bytes()


@pytest.mark.parametrize("path", ["/", "/index.html", "/?x=1"])
def test_the_page_needs_no_login(path: str, shared_management_server: ManagementServer) -> None:
    reply = shared_management_server.get(path, user=None)

    assert (reply.status, reply.body) == (200, INDEX)
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_scripts_are_compressed_when_asked(shared_management_server: ManagementServer) -> None:
    reply = shared_management_server.get(
        "/app/main.js", user=None, headers={"Accept-Encoding": "gzip"}
    )

    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
    body = gzip.decompress(reply.body) if "content-encoding" in reply.headers else reply.body
    assert body == (DIRECTORY / "app" / "main.js").read_bytes()


def test_a_file_that_a_client_has_is_not_sent_again(
    shared_management_server: ManagementServer,
) -> None:
    first = shared_management_server.get("/", user=None)

    for name, field in (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")):
        headers = {name: first.headers[field]}
        again = shared_management_server.get("/", user=None, headers=headers)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    for value in ('"x"', "Mon, 01 Jan 2001 00:00:00 GMT"):
        name = "If-None-Match" if '"' in value else "If-Modified-Since"
        assert shared_management_server.get("/", user=None, headers={name: value}).status == 200


@pytest.mark.parametrize(
    "path",
    ["/nosuch", "/../server.py", "/..%2fserver.py", "/app/../index.html", "/app", "//index.html"],
)
def test_nothing_else_is_served(path: str, shared_management_server: ManagementServer) -> None:
    assert shared_management_server.get(path, user=None).status == 404
