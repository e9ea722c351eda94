"""Which page an address names, and who takes it."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from amqp_server.management.metrics.page_query import (
    FIELDS_MAX,
    PageQuery,
    PageRefusedError,
    accepts_gzip,
    check_accepts_text,
    parse_page_query,
)

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("path", "page"),
    [
        ("/metrics", "default"),
        ("/metrics/", "default"),
        ("/metrics/default", "default"),
        ("/metrics/per-object", "per-object"),
        ("/metrics/detailed", "detailed"),
        ("/metrics/memory-breakdown", "memory-breakdown"),
    ],
)
def test_pages(path: str, page: str) -> None:
    assert parse_page_query(path, "") == PageQuery(page)


@pytest.mark.parametrize(
    "path",
    ["/", "/metric", "/metrics/x", "/metrics/detailed/x", "/metrics//x", "/metrics/Detailed"],
)
def test_other_paths_are_no_pages(path: str) -> None:
    with pytest.raises(PageRefusedError) as refused:
        parse_page_query(path, "")
    assert refused.value.status == HTTPStatus.NOT_FOUND


def test_a_family_or_virtual_host_asked_twice_is_asked_once() -> None:
    query = "family=queue_metrics&vhost=a%2Fb&family=x&family=queue_metrics&vhost=%2F&vhost=a%2Fb"
    assert parse_page_query("/metrics/detailed", query) == PageQuery(
        "detailed", ("queue_metrics", "x"), ("a/b", "/")
    )


def test_an_expression_for_queues() -> None:
    found = parse_page_query("/metrics/detailed", "queue=%5Ea.*%2Bb&family=queue_metrics")
    assert found.queue_pattern == "^a.*+b"
    assert found.vhosts is None


def test_filters_of_other_pages_make_no_other_page() -> None:
    assert parse_page_query("/metrics", "vhost=a&family=b&queue=c") == PageQuery("default")


@pytest.mark.parametrize("query", ["queue=a&queue=b", "&".join(["family=x"] * (FIELDS_MAX + 1))])
def test_wrong_queries(query: str) -> None:
    with pytest.raises(PageRefusedError) as refused:
        parse_page_query("/metrics/detailed", query)
    assert refused.value.status == HTTPStatus.BAD_REQUEST


@pytest.mark.parametrize(
    "accept", ["", "*/*", "text/*", "text/plain", "Text/Plain; version=0.0.4", PROMETHEUS]
)
def test_who_takes_text(accept: str) -> None:
    check_accepts_text(accept)


@pytest.mark.parametrize(
    "accept",
    ["application/openmetrics-text;version=1.0.0", "application/json", "text/plain;q=0", "x"],
)
def test_who_does_not(accept: str) -> None:
    with pytest.raises(PageRefusedError) as refused:
        check_accepts_text(accept)
    assert refused.value.status == HTTPStatus.NOT_ACCEPTABLE


@pytest.mark.parametrize(
    ("header", "takes"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("identity", False),
        ("*", True),
    ],
)
def test_who_takes_gzip(header: str, *, takes: bool) -> None:
    assert accepts_gzip(header) is takes
