"""What hostile clients send: paths, headers, bodies, patterns, and too many of everything.

After each of them the server must serve others as before, and it must have logged no error.
"""

from __future__ import annotations

import json
import os
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import pytest

from amqp_server.management.server import CONNECTIONS_MAX, OTHER_FILES
from tests.amqp_client import connect
from tests.limits import HANG_SECONDS
from tests.management.conftest import ManagementServer, basic

CONNECTIONS: Final = int(os.environ.get("HTTP_CONNECTIONS", "600"))
"""Clients that do nothing; more than the server's bound in the long mode."""
PIPELINED_BYTES: Final = 64 * 1024 * 1024
"""More than the buffers of the sockets hold."""
UNREAD_SECONDS: Final = 1.0
MEMORY_BYTES_MAX: Final = 400 * 1024 * 1024
_HOST = b"Host: localhost\r\n"
_LOGIN = b"Authorization: " + basic("guest").encode() + b"\r\n"
_END = b"Connection: close\r\n\r\n"


@pytest.fixture(scope="module")
def server(shared_management_server: ManagementServer) -> ManagementServer:
    """Return the server of this file."""
    return shared_management_server


@pytest.fixture(autouse=True)
def _others_are_served(server: ManagementServer) -> Iterator[None]:
    yield
    reply = server.get("/api/whoami")
    assert (reply.status, reply.json["name"]) == (200, "guest")
    assert not server.server.faults, server.server.faults


def exchange(server: ManagementServer, octets: bytes) -> bytes:
    """Send octets as they are; return all that comes until the server ends the connection."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), HANG_SECONDS) as client:
        received = b""
        try:
            client.sendall(octets)
            while part := client.recv(65_536):
                received += part
        except ConnectionError:
            pass
        return received


def status_of(answer: bytes) -> int:
    """Return the status of the first answer; 0 where the connection ended without one."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else 0


def management_pid(server: ManagementServer) -> int:
    """Return the process id of the management server, the broker's only child that runs it."""
    children = Path(f"/proc/{server.server.pid}/task/{server.server.pid}/children").read_text()
    (pid,) = (
        int(child)
        for child in children.split()
        if b"amqp_server.management" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return pid


def peak_bytes(server: ManagementServer) -> int:
    """Return the most memory that the management server ever had."""
    status = Path(f"/proc/{management_pid(server)}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["VmHWM"].split()[0]) * 1024


PATHS: Final = (
    "/../../../../../../etc/passwd",
    "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/%252e%252e/%252e%252e/etc/passwd",
    "/..\\..\\..\\etc\\passwd",
    "/..%5c..%5cetc%5cpasswd",
    "//etc/passwd",
    "/./etc/passwd",
    "//////",
    "/api/../api/../../etc/passwd",
    "/api/%2e%2e/%2e%2e/etc/passwd",
    "/index.html%00.js",
    "/%00",
    "/api/%00",
    "/api/queues/%2F/%00",
    "/api/queues/%",
    "/api/queues/%zz",
    "/api/queues/%ff%fe",
    "/api/queues/%C0%AE%C0%AE",
    "/api//queues",
    "//api/queues",
    "/api/queues//x",
    "/" + "a" * 15_000,
    "/" + "a" * 100_000,
    "/api/queues/%2F/" + "%2F" * 4_000,
    "/api/queues/%2F/" + "é" * 3_000,
    "/" + "a/" * 7_000,
    "/api/queues?" + "&".join(f"a{n}=1" for n in range(1_000)),
    "/api/queues?columns=" + "a." * 5_000,
    "/api/queues?columns=" + "a," * 5_000,
    "/api/queues?sort=" + "a." * 5_000,
    "/api/queues?page=" + "9" * 5_000,
    "/api/queues?page=1&page_size=" + "9" * 5_000,
    "/api/queues?page=1&name=%00",
    "/api/queues?lengths_age=1e308&lengths_incr=1e-308",
    "/api/queues?lengths_age=-5&lengths_incr=-1",
    "/api/queues?lengths_age=5&lengths_incr=0",
    "/api/queues?msg_rates_age=99999999999999999999&msg_rates_incr=99999999999999999999",
    "*",
    "http://example.com/api/whoami",
    "https://example.com:99999/%2e%2e/etc/passwd",
    "/;/?#/../etc/passwd",
    "/session/../../etc/passwd",
)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: quote(path[:40], safe="/%"))
def test_a_path_leads_nowhere_else(server: ManagementServer, path: str) -> None:
    answer = exchange(server, b"GET %b HTTP/1.1\r\n%b%b%b" % (path.encode(), _HOST, _LOGIN, _END))

    assert status_of(answer) in {200, 301, 400, 401, 404, 414}, answer[:200]
    assert b"root:" not in answer
    assert b"Traceback" not in answer


REQUESTS: Final = {
    "two lengths": b"POST /session HTTP/1.1\r\n%bContent-Length: 2\r\nContent-Length: 40\r\n\r\n{}",
    "two lengths in one": b"POST /session HTTP/1.1\r\n%bContent-Length: 2, 40\r\n\r\n{}",
    "a length with a sign": b"POST /session HTTP/1.1\r\n%bContent-Length: +2\r\n\r\n{}",
    "a negative length": b"POST /session HTTP/1.1\r\n%bContent-Length: -2\r\n\r\n{}",
    "an octal length": b"POST /session HTTP/1.1\r\n%bContent-Length: 0x2\r\n\r\n{}",
    "a huge length": b"POST /session HTTP/1.1\r\n%bContent-Length: " + b"9" * 400 + b"\r\n\r\n{}",
    "a space before the colon": b"POST /session HTTP/1.1\r\n%bContent-Length : 2\r\n\r\n{}",
    "a folded header": b"POST /session HTTP/1.1\r\n%bContent-Length:\r\n 2\r\n\r\n{}",
    "length and chunks": b"POST /session HTTP/1.1\r\n%bContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown encoding": b"POST /session HTTP/1.1\r\n%bTransfer-Encoding: xchunked\r\n\r\n"
    b"0\r\n\r\n",
    "chunked twice": b"POST /session HTTP/1.1\r\n%bTransfer-Encoding: chunked, identity\r\n\r\n"
    b"0\r\n\r\n",
    "a chunk without a number": b"POST /session HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n"
    b"x\r\n\r\n",
    "a chunk of negative size": b"POST /session HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n"
    b"-1\r\n\r\n",
    "a chunk of a huge size": b"POST /session HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\n"
    + b"f" * 40
    + b"\r\n\r\n",
    "no version": b"GET /session\r\n%b\r\n",
    "another version": b"GET /session HTTP/9.9\r\n%b\r\n",
    "a wrong method": b"G\x00T /session HTTP/1.1\r\n%b\r\n",
    "a header without a name": b"GET /session HTTP/1.1\r\n%b: x\r\n\r\n",
    "a zero in a header": b"GET /session HTTP/1.1\r\n%bX: a\x00b\r\n\r\n",
    "a long header": b"GET /session HTTP/1.1\r\n%bX: " + b"x" * 200_000 + b"\r\n\r\n",
    "many headers": b"GET /session HTTP/1.1\r\n%b" + b"X: y\r\n" * 5_000 + b"\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%b",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03%b",
    "AMQP": b"AMQP\x00\x00\x09\x01%b",
    "nothing but ends of lines": b"\r\n" * 10_000 + b"%b",
}
SMUGGLED: Final = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("request_line", REQUESTS.values(), ids=REQUESTS)
def test_a_malformed_request_is_refused_with_all_that_follows(
    server: ManagementServer, request_line: bytes
) -> None:
    answer = exchange(server, request_line.replace(b"%b", _HOST) + SMUGGLED)

    # What stands behind a request whose end is in doubt must not be taken for the next one.
    assert len(re.findall(rb"^HTTP/1\.", answer, re.MULTILINE)) <= 1, answer
    assert status_of(answer) in {0, 400, 414, 431}, answer[:300]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"aiohttp" not in head
    assert status_of(answer) != 400 or body == b""


def test_equal_lengths_or_nothing_are_no_way_in(server: ManagementServer) -> None:
    twice = b"POST /session HTTP/1.1\r\n" + _HOST + b"Content-Length: 2\r\nContent-Length: 2\r\n"
    answer = exchange(server, twice + b"\r\n{}" + SMUGGLED)

    assert status_of(answer) == 400, answer[:200]
    assert len(re.findall(rb"^HTTP/1\.", answer, re.MULTILINE)) == 1


def test_requests_in_one_go_are_answered_in_order(server: ManagementServer) -> None:
    asked = 200
    one = b"GET /api/nosuch-%d HTTP/1.1\r\n" + _HOST + _LOGIN
    many = b"".join(one % number + b"\r\n" for number in range(asked))
    answer = exchange(server, many + one % asked + _END)

    assert answer.count(b"HTTP/1.1 404") == asked + 1


@pytest.mark.parametrize("is_chunked", [False, True], ids=["with its length", "in chunks"])
def test_a_body_of_a_hundred_megabytes_is_refused(
    server: ManagementServer, is_chunked: bool
) -> None:
    size = 100_000_000
    chunk = b"x" * 1_000_000
    parts = urlsplit(server.url)
    head = b"PUT /api/users/x HTTP/1.1\r\n" + _HOST + _LOGIN
    length = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % size
    sent = 0
    answer = b""
    with socket.create_connection((parts.hostname, parts.port), HANG_SECONDS) as client:
        try:
            client.sendall(head + length + b"\r\n\r\n")
            while sent < size:
                client.sendall(b"%x\r\n%b\r\n" % (len(chunk), chunk) if is_chunked else chunk)
                sent += len(chunk)
            answer = client.recv(65_536)
        except ConnectionError:
            answer = _received(client)

    # What the server reads after it has answered, it forgets.
    assert not answer or b"Exceeded HTTP request body size limit" in answer, answer[:300]
    assert peak_bytes(server) < MEMORY_BYTES_MAX


def _received(client: socket.socket) -> bytes:
    """Return what came before the connection was reset."""
    try:
        return client.recv(65_536)
    except ConnectionError:
        return b""


BODIES: Final = {
    "deep lists": b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a huge number": b'{"tags":' + b"9" * 100_000 + b"}",
    "a number beyond floats": b'{"tags":1e99999}',
    "half a surrogate": b'{"tags":"\\ud800"}',
    "no UTF-8": b'{"tags":"\xff\xfe"}',
    "not a number": b'{"tags":NaN}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a list of a million": b'{"tags":[' + b'"a",' * 1_000_000 + b'"a"]}',
    "compressed": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_hostile_body_is_refused(server: ManagementServer, body: bytes) -> None:
    reply = server.request("PUT", "/api/users/hostile", body)

    assert reply.status == 400, reply
    assert reply.json["error"] == "bad_request"


VALUES: Final[tuple[object, ...]] = (
    None,
    True,
    5,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "\u0000",
    "é" * 300,
    [],
    [1],
    [[]],
    [None],
    ["x", "x"],
    {},
    {"a": None},
    {"a": {"b": [1.5, {"c": None}]}},
    {"": ""},
)
_POLICY: Final = {
    "pattern": "^z",
    "definition": {"max-length": 1},
    "priority": 1,
    "apply-to": "all",
}
_PERMISSION: Final = {"configure": "", "write": "", "read": ""}
GOOD_BODIES: Final[dict[str, dict[str, object]]] = {
    "PUT /vhosts/z": {
        "description": "",
        "tags": "a",
        "default_queue_type": "classic",
        "tracing": False,
    },
    "PUT /users/z": {"password": "z", "tags": "management"},
    "PUT /users/zh": {"password_hash": "", "hashing_algorithm": "", "tags": []},
    "POST /users/bulk-delete": {"users": ["zz"]},
    "PUT /permissions/%2F/guest": {"configure": ".*", "write": ".*", "read": ".*"},
    "PUT /topic-permissions/%2F/guest": {"exchange": "amq.topic", "write": ".*", "read": ".*"},
    "PUT /vhost-limits/%2F/max-queues": {"value": 10_000},
    "PUT /user-limits/guest/max-channels": {"value": 10_000},
    "PUT /policies/%2F/z": _POLICY,
    "PUT /operator-policies/%2F/z": _POLICY,
    "PUT /parameters/federation-upstream/%2F/z": {"value": {}},
    "PUT /global-parameters/z": {"value": 1},
    "PUT /cluster-name": {"name": "z"},
    "PUT /queues/%2F/z": {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 1}},
    "PUT /exchanges/%2F/z": {"type": "topic", "durable": True, "internal": False, "arguments": {}},
    "POST /bindings/%2F/e/amq.topic/q/z": {"routing_key": "z", "arguments": {"a": 1}},
    "POST /exchanges/%2F/amq.topic/publish": {
        "routing_key": "z",
        "properties": {"headers": {"a": 1}},
        "payload": "z",
        "payload_encoding": "string",
    },
    "POST /queues/%2F/z/get": {
        "count": 1,
        "ackmode": "ack_requeue_true",
        "encoding": "auto",
        "truncate": 1,
    },
    "POST /queues/%2F/z/actions": {"action": "sync"},
    "POST /queues/%2F/z/replay": {"from": "earliest", "until": "", "to": "z", "filters": []},
    "POST /queues/%2F/z/dead-letters/return": {"from": "earliest", "until": "", "filters": []},
    "POST /definitions": {
        "users": [],
        "vhosts": [],
        "permissions": [],
        "topic_permissions": [],
        "parameters": [],
        "global_parameters": [],
        "policies": [],
        "queues": [],
        "exchanges": [],
        "bindings": [],
    },
    "POST /definitions/%2F": {"queues": [{"name": "zd", "durable": True, "arguments": {}}]},
}


@pytest.mark.parametrize("target", GOOD_BODIES)
def test_a_value_of_any_type_is_taken_or_refused(server: ManagementServer, target: str) -> None:
    assert server.put("/api/queues/%2F/z", {"durable": True}).status in {201, 204, 400}
    method, path = target.split()
    good = GOOD_BODIES[target]
    failed = []
    for key in good:
        for value in (*VALUES, *([item] for item in VALUES), *({"x": item} for item in VALUES)):
            body = {**good, key: value}
            headers = {"Content-Type": "application/json"}
            reply = server.request(method, f"/api{path}", body, headers=headers)
            if reply.status >= 500 or (reply.status >= 400 and not reply.json["reason"]):
                failed.append((body, reply.status, reply.body))
    if path.startswith("/permissions"):
        assert server.put(f"/api{path}", good).status in {201, 204}

    assert not failed, failed
    for read in ("/definitions", "/overview", f"/{path.split('/')[1]}"):
        assert server.get(f"/api{read}").status in {200, 404}, read
    assert server.get("/metrics/per-object", user=None, url=server.metrics_url).status == 200


def test_slow_clients_keep_nobody_waiting(server: ManagementServer) -> None:
    parts = urlsplit(server.url)
    with ExitStack() as opened:
        for number in range(50):
            client = socket.create_connection((parts.hostname, parts.port), HANG_SECONDS)
            opened.enter_context(client)
            head = b"PUT /api/users/x HTTP/1.1\r\n" + _HOST + _LOGIN
            slow = head + b"Content-Length: 1000\r\n\r\n{" if number % 2 else head
            client.sendall(slow)

        assert server.get("/api/whoami").status == 200


def test_many_idle_connections_keep_nobody_out(server: ManagementServer) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, CONNECTIONS * 2)), hard))
    parts = urlsplit(server.url)
    publisher = connect(("127.0.0.1", server.amqp_port))
    publisher.open_channel(1, confirms=True)
    publisher.declare("beside")
    published = 0
    with ExitStack() as opened:
        for number in range(CONNECTIONS):
            client = socket.create_connection((parts.hostname, parts.port), HANG_SECONDS)
            opened.enter_context(client)
            # Each sends something else, and none a whole request.
            client.sendall((b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n")[number % 3])
            if number % (CONNECTIONS // 10) == 0:
                assert server.get("/api/whoami").status == 200
                publisher.publish(b"%d" % published, "beside")
                publisher.expect_confirmed()
                published += 1
        assert open_files(management_pid(server)) < CONNECTIONS_MAX + OTHER_FILES
        assert server.get("/api/queues/%2F/beside").json["messages"] == published
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    publisher.close()


def open_files(process_id: int) -> int:
    """Return how many descriptors a process has."""
    return len(os.listdir(f"/proc/{process_id}/fd"))  # noqa: PTH208 - only their number


def test_requests_whose_answers_nobody_reads_are_not_kept(server: ManagementServer) -> None:
    before = peak_bytes(server)
    parts = urlsplit(server.url)
    requests = (b"GET /api/index.html HTTP/1.1\r\n" + _HOST + b"\r\n") * 1000
    sent = 0
    with socket.create_connection((parts.hostname, parts.port), UNREAD_SECONDS) as client:
        with suppress(TimeoutError):
            while sent < PIPELINED_BYTES:
                sent += client.send(requests)

        assert sent < PIPELINED_BYTES, "the server does not stop reading"
        assert server.get("/api/whoami").status == 200
    assert peak_bytes(server) < before + PIPELINED_BYTES / 4


PATTERNS: Final = (
    "(a+)+$",
    "(a|aa)+$",
    "(a*)*b",
    "(.*a){40}b",
    "((a{1,100}){1,100}){1,100}b",
    "(?:" * 300 + ")" * 300,
    "(" * 500,
    "[" * 500,
    "a{99999999}",
    "(?R)",
    "(?P<n>a(?&n))",
    "\\" * 99,
    "(a)" * 300 + "\\99",
)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern[:20])
def test_a_pattern_that_never_ends_is_stopped(server: ManagementServer, pattern: str) -> None:
    assert server.put("/api/queues/%2F/" + "a" * 120).status in {201, 204}

    reply = server.get(f"/api/queues?page=1&use_regex=true&name={quote(pattern)}")

    assert reply.status in {200, 400}, reply


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern[:20])
def test_a_pattern_for_metrics_that_never_ends_is_stopped(
    server: ManagementServer, pattern: str
) -> None:
    assert server.put("/api/queues/%2F/" + "a" * 120).status in {201, 204}

    path = f"/metrics/detailed?family=queue_coarse_metrics&queue={quote(pattern)}"
    reply = server.get(path, user=None, url=server.metrics_url)

    assert reply.status in {200, 400}, reply


def test_a_pattern_of_a_permission_that_never_ends_is_stopped(server: ManagementServer) -> None:
    body = {"configure": "^(a+)+$", "write": "(a|aa)+$", "read": "(.*a){40}b"}
    assert server.put("/api/users/slow", {"password": "slow", "tags": "management"}).status == 201
    assert server.put("/api/permissions/%2F/slow", body).status in {201, 400}

    reply = server.put("/api/queues/%2F/" + "a" * 120 + "!", user="slow")

    assert reply.status == 401, reply


class TestOtherSites:
    """A page of another site that the browser of a logged-in user shows."""

    def test_a_cookie_alone_changes_nothing(self, server: ManagementServer) -> None:
        cookie, _ = self._log_in(server)

        reply = server.put("/api/queues/%2F/forged", user=None, headers={"Cookie": cookie})

        assert reply.status == 401, reply
        assert server.get("/api/queues/%2F/forged").status == 404

    def test_the_token_of_another_session_changes_nothing(self, server: ManagementServer) -> None:
        cookie, _ = self._log_in(server)
        _, other = self._log_in(server)

        headers = {"Cookie": cookie, "X-CSRF-Token": other}
        reply = server.put("/api/queues/%2F/forged", user=None, headers=headers)

        assert reply.status == 401, reply

    def test_the_token_of_the_session_is_taken(self, server: ManagementServer) -> None:
        cookie, token = self._log_in(server)

        headers = {"Cookie": cookie, "X-CSRF-Token": token}
        reply = server.put("/api/queues/%2F/own", user=None, headers=headers)

        assert reply.status in {201, 204}, reply

    def test_the_cookie_is_not_for_scripts_nor_for_other_sites(
        self, server: ManagementServer
    ) -> None:
        reply = server.post("/session", {"username": "guest", "password": "guest"}, user=None)

        flags = {flag.strip().lower() for flag in reply.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=strict"} <= flags

    @pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
    def test_a_password_that_the_browser_remembers_changes_nothing(
        self, server: ManagementServer, method: str
    ) -> None:
        path = "/api/exchanges/%2F/amq.direct/publish" if method == "POST" else "/api/queues/%2F/f"
        body = {"properties": {}, "routing_key": "x", "payload": "x", "payload_encoding": "string"}
        headers = {
            "Sec-Fetch-Site": "cross-site",
            "Origin": "http://evil.example",
            "Content-Type": "text/plain",
        }

        assert server.request(method, path, body, headers=headers).status == 401

    def test_another_site_is_told_nothing(self, server: ManagementServer) -> None:
        reply = server.get("/api/whoami", headers={"Origin": "http://evil.example"})

        assert not [name for name in reply.headers if name.startswith("access-control")]

    def _log_in(self, server: ManagementServer) -> tuple[str, str]:
        reply = server.post("/session", {"username": "guest", "password": "guest"}, user=None)
        assert reply.status == 200, reply
        return reply.headers["set-cookie"].split(";")[0], reply.json["csrf_token"]


@pytest.mark.parametrize(
    "header",
    [
        "Basic " + "A" * 7_000,
        "Basic " + "=" * 100,
        "Bearer " + "." * 5_000,
        "Basic \xff",
        "Bearer \xff",
        "",
    ],
    ids=lambda header: header[:12],
)
def test_a_hostile_login_is_refused(server: ManagementServer, header: str) -> None:
    head = b"GET /api/whoami HTTP/1.1\r\nAuthorization: " + header.encode("latin-1") + b"\r\n"

    assert status_of(exchange(server, head + _HOST + _END)) in {400, 401}


@pytest.mark.parametrize(
    "name",
    [
        *("Accept", "Accept-Encoding", "Access-Control-Request-Headers", "Content-Type", "Cookie"),
        *(
            "Host",
            "If-Modified-Since",
            "If-None-Match",
            "Last-Event-ID",
            "Origin",
            "Sec-Fetch-Site",
        ),
        *("X-CSRF-Token", "X-Forwarded-Host", "X-Reason"),
    ],
)
@pytest.mark.parametrize("path", ["/api/connections/none", "/api/whoami", "/", "/session"])
@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS"])
def test_octets_that_are_no_text_are_no_error_of_the_server(
    server: ManagementServer, method: str, path: str, name: str
) -> None:
    head = f"{method} {path} HTTP/1.1\r\n".encode()
    host = b"" if name == "Host" else _HOST

    answer = exchange(server, head + host + name.encode() + b": \xff\xfe\r\n" + _LOGIN + _END)

    assert 200 <= status_of(answer) < 500, answer[:200]


def test_a_token_of_16_kib_is_checked(server: ManagementServer) -> None:
    """As it is, as the password of Basic, and in the body of a session."""
    token = "x." * 8192
    body = {"username": "", "password": token}
    for header in (f"Bearer {token}", basic("guest", token)):
        reply = server.get("/api/whoami", user=None, headers={"Authorization": header})
        assert (reply.status, reply.json["reason"]) == (401, "Login failed")
    reply = server.post("/session", body, user=None)
    assert (reply.status, reply.json["reason"]) == (401, "Login failed")


def test_names_are_text_in_answers(server: ManagementServer) -> None:
    name = "<script>alert(1)</script>\"'&\r\n\u202e"
    path = f"/api/queues/%2F/{quote(name, safe='')}"
    assert server.put(path).status in {201, 400}

    reply = server.get(path)

    assert reply.headers["content-type"] == "application/json"
    assert reply.headers.get("x-content-type-options") == "nosniff"
    if reply.status == 200:
        assert json.loads(reply.body)["name"] == name
