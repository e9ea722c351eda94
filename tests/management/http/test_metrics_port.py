"""The port of metrics."""

from __future__ import annotations

import gzip

from tests.management.conftest import ManagementServer


def test_metrics_need_no_login(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    reply = server.get("/metrics", user=None, url=server.metrics_url)

    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain")
    assert b"\nrabbitmq_queues " in reply.body


def test_metrics_are_compressed_when_asked(shared_management_server: ManagementServer) -> None:
    server = shared_management_server
    headers = {"Accept-Encoding": "gzip"}
    reply = server.get("/metrics", user=None, url=server.metrics_url, headers=headers)

    assert reply.headers["content-encoding"] == "gzip"
    assert b"\nrabbitmq_queues " in gzip.decompress(reply.body)


def test_there_is_nothing_else(shared_management_server: ManagementServer) -> None:
    server = shared_management_server

    assert server.get("/api/version", user=None, url=server.metrics_url).status == 404
    reply = server.post("/metrics", user=None, url=server.metrics_url)
    assert (reply.status, reply.headers["allow"]) == (405, "HEAD, GET")
    assert server.get("/metrics", user=None).status == 404
