"""Rules of every path of the API."""

from __future__ import annotations

import gzip
import socket
from http.client import HTTPConnection
from urllib.parse import quote, urlsplit

import pytest

from tests.limits import HANG_SECONDS
from tests.management.conftest import ManagementServer, StartManagementServer, basic

NAMES = ["a/b", "a?b", "a#b", "a%2Fb", "100%", "a b", "a+b", "grün", ".", "..", "a;b=c", "'\"<"]


# Paths


@pytest.mark.parametrize("path", ["/api/nosuch", "/nosuch/x", "//api/queues", "/api/queues/%2F//"])
def test_a_path_that_does_not_exist_is_404(
    path: str, shared_management_server: ManagementServer
) -> None:
    reply = shared_management_server.get(path)

    assert reply.status == 404
    assert reply.json == {"error": "Object Not Found", "reason": "Not Found"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_it_is_404_for_every_method(
    method: str, shared_management_server: ManagementServer
) -> None:
    assert shared_management_server.request(method, "/api/nosuch", user=None).status == 404


def test_the_root_of_the_api_leads_to_its_list(shared_management_server: ManagementServer) -> None:
    reply = shared_management_server.get("/api", user=None)
    page = shared_management_server.get("/api/index.html", user=None)

    assert (reply.status, reply.headers["location"]) == (301, "/api/index.html")
    assert page.status == 200
    assert b"/api/queues/{vhost}/{name}" in page.body


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_characters_are_segments(
    name: str, shared_management_server: ManagementServer
) -> None:
    path = f"/api/queues/%2F/{quote(name, safe='')}"

    assert shared_management_server.put(path).status == 201
    assert shared_management_server.put(path).status == 204
    assert shared_management_server.get(path).json["name"] == name
    assert shared_management_server.delete(path).status == 204
    assert shared_management_server.get(path).status == 404


def test_a_segment_is_decoded_once(shared_management_server: ManagementServer) -> None:
    shared_management_server.put("/api/queues/%2f/x%252Fy")

    assert shared_management_server.get("/api/queues/%2F/x%252Fy").json["name"] == "x%2Fy"
    assert shared_management_server.get("/api/queues/%2F/x%2Fy").status == 404
    shared_management_server.delete("/api/queues/%2F/x%252Fy")


def test_an_empty_last_segment_is_the_list(shared_management_server: ManagementServer) -> None:
    assert shared_management_server.get("/api/queues/").json == []
    assert shared_management_server.get("/api/queues/%2F/").json == []


@pytest.mark.parametrize("path", ["/api/queues/%zz", "/api/queues/%ff", "/api/queues?x=%ff"])
def test_what_is_no_utf_8_is_400(path: str, shared_management_server: ManagementServer) -> None:
    reply = shared_management_server.get(path)

    assert (reply.status, reply.body) == (400, b"")


def test_a_whole_url_is_a_target_too(shared_management_server: ManagementServer) -> None:
    reply = shared_management_server.get("http://localhost:1/api/version")

    assert reply.status == 200


# Methods


def test_a_method_that_a_path_does_not_have_is_405(
    shared_management_server: ManagementServer,
) -> None:
    reply = shared_management_server.request("PATCH", "/api/queues/%2F/q", user=None)

    assert (reply.status, reply.body) == (405, b"")
    assert reply.headers["allow"] == "HEAD, GET, PUT, DELETE, OPTIONS"


def test_options_needs_no_login(shared_management_server: ManagementServer) -> None:
    reply = shared_management_server.request("OPTIONS", "/api/queues/%2F/q", user=None)

    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["allow"] == "HEAD, GET, PUT, DELETE, OPTIONS"


def test_a_header_does_not_change_the_method(shared_management_server: ManagementServer) -> None:
    headers = {"X-HTTP-Method-Override": "DELETE"}

    assert shared_management_server.post("/api/queues/%2F/q", headers=headers).status == 405


def test_head_answers_as_get_without_a_body(shared_management_server: ManagementServer) -> None:
    got = shared_management_server.get("/api/vhosts?columns=name")
    head = shared_management_server.request("HEAD", "/api/vhosts?columns=name")

    assert (head.status, head.body) == (200, b"")
    for name in ("content-type", "content-length", "cache-control", "vary"):
        assert head.headers[name] == got.headers[name]


# Headers


def test_answers_are_json_that_is_not_cached(shared_management_server: ManagementServer) -> None:
    headers = shared_management_server.get("/api/overview").headers

    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-cache"
    assert headers["vary"] == "accept, accept-encoding, origin"
    assert "etag" not in headers


def test_long_answers_are_compressed_when_asked(shared_management_server: ManagementServer) -> None:
    plain = shared_management_server.get("/api/exchanges")
    packed = shared_management_server.get(
        "/api/exchanges",
        headers={"Accept-Encoding": "br, gzip"},
    )
    refused = shared_management_server.get(
        "/api/exchanges", headers={"Accept-Encoding": "gzip;q=0"}
    )

    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body
    assert "content-encoding" not in refused.headers


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json", 200),
        ("*/*", 200),
        ("text/html, */*;q=0.1", 200),
        ("application/bert, application/json;q=0.1", 200),
        ("text/html", 406),
        ("application/json;q=0", 406),
    ],
)
def test_clients_that_take_no_json_get_406(
    accept: str, status: int, shared_management_server: ManagementServer
) -> None:
    reply = shared_management_server.get("/api/extensions", headers={"Accept": accept})

    assert reply.status == status


# Bodies


@pytest.mark.parametrize("body", [b"", b"null", b"undefined", b"{}", b' {"name":"x","zzz":1} '])
def test_a_body_may_be_empty_and_have_unknown_keys(
    body: bytes, shared_management_server: ManagementServer
) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = shared_management_server.request("PUT", "/api/queues/%2F/body", body, headers=headers)

    assert reply.status in (201, 204)


def test_booleans_may_be_texts(shared_management_server: ManagementServer) -> None:
    body = {"durable": "true", "auto_delete": "false", "arguments": []}
    shared_management_server.put("/api/queues/%2F/texts", body)

    found = shared_management_server.get("/api/queues/%2F/texts").json
    assert (found["durable"], found["auto_delete"], found["arguments"]) == (True, False, {})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not_json"),
        (b"[1]", "not_json"),
        (b'"x"', "not_json"),
        (b'{"durable":"x"}', ["not_boolean", "x"]),
        (b'{"durable":5}', ["not_boolean", 5]),
        (b'{"auto_delete":""}', ["not_boolean", ""]),
        (b'{"arguments":{"a":null}}', "null_not_allowed"),
    ],
)
def test_a_bad_body_is_400_with_its_reason(
    body: bytes, reason: object, shared_management_server: ManagementServer
) -> None:
    reply = shared_management_server.request("PUT", "/api/queues/%2F/bad", body)

    assert reply.status == 400
    assert reply.json == {"error": "bad_request", "reason": reason}


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_too_long_is_refused(
    is_chunked: bool, shared_management_server: ManagementServer
) -> None:
    parts = urlsplit(shared_management_server.url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=HANG_SECONDS)
    connection.putrequest("PUT", "/api/queues/%2F/long")
    connection.putheader("Authorization", basic("guest"))
    if is_chunked:
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        block = b" " * 1_000_000
        for _ in range(20):
            connection.send(b"%x\r\n%b\r\n" % (len(block), block))
        connection.send(b"1\r\n \r\n")
    else:
        connection.putheader("Content-Length", str(20_000_001))
        connection.endheaders()
    response = connection.getresponse()

    assert response.status == 400
    assert b"Exceeded HTTP request body size limit" in response.read()
    connection.close()


# Logins


def test_without_a_login_there_is_an_empty_401(shared_management_server: ManagementServer) -> None:
    reply = shared_management_server.get("/api/overview", user=None)

    assert (reply.status, reply.body) == (401, b"")
    assert reply.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


def test_a_wrong_password_is_401_with_a_reason(shared_management_server: ManagementServer) -> None:
    reply = shared_management_server.get("/api/overview", password="no")

    assert reply.status == 401
    assert reply.json == {"error": "not_authorized", "reason": "Login failed"}
    assert reply.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Basic Z3Vlc3Q=", "Basic /w=="])
def test_a_malformed_login_is_an_empty_400(
    header: str, shared_management_server: ManagementServer
) -> None:
    headers = {"Authorization": header}
    reply = shared_management_server.get("/api/overview", user=None, headers=headers)

    assert (reply.status, reply.body) == (400, b"")


def test_another_scheme_is_no_login(shared_management_server: ManagementServer) -> None:
    headers = {"Authorization": "Digest x"}
    reply = shared_management_server.get("/api/overview", user=None, headers=headers)

    assert (reply.status, reply.body) == (401, b"")


# Pages of other servers


def test_only_origins_of_the_setting_get_the_headers_of_cors(
    start_management_server: StartManagementServer,
) -> None:
    server = start_management_server(
        "--management-cors-origin", "https://a.example,https://b.example"
    )

    good = server.get("/api/version", headers={"Origin": "https://b.example"})
    bad = server.get("/api/version", headers={"Origin": "https://c.example"})
    asked = server.request(
        "OPTIONS",
        "/api/queues/%2F/q",
        user=None,
        headers={"Origin": "https://a.example", "Access-Control-Request-Headers": "x-a, x-b"},
    )

    assert good.headers["access-control-allow-origin"] == "https://b.example"
    assert good.headers["access-control-allow-credentials"] == "true"
    assert bad.status == 200
    assert not any(name.startswith("access-control") for name in bad.headers)
    found = {name: value for name, value in asked.headers.items() if name.startswith("access-")}
    assert found == {
        "access-control-allow-origin": "https://a.example",
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "HEAD, GET, PUT, DELETE, OPTIONS",
        "access-control-allow-headers": "x-a, x-b",
        "access-control-max-age": "1800",
    }


def test_with_a_star_every_origin_gets_them_without_credentials(
    start_management_server: StartManagementServer,
) -> None:
    server = start_management_server("--management-cors-origin", "*")

    headers = server.get("/api/version", headers={"Origin": "https://c.example"}).headers

    assert headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in headers


# Octets that are no requests


@pytest.mark.parametrize(
    "octets",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),
        b"AMQP\x00\x00\x09\x01",
        b"GET /api/version HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 25_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"x%d: y\r\n" % n for n in range(200)) + b"\r\n",
    ],
)
def test_what_is_no_request_is_refused_without_a_traceback(
    octets: bytes, shared_management_server: ManagementServer
) -> None:
    parts = urlsplit(shared_management_server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=HANG_SECONDS) as client:
        client.sendall(octets + b"\r\n\r\n")
        answer = client.makefile("rb").read()

    assert b" 400 " in answer.partition(b"\r\n")[0]
    assert b"Traceback" not in answer
    assert b".py" not in answer
    assert shared_management_server.get("/api/version").status == 200
