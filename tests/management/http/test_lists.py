"""Lists: columns, order, pages, patterns, and past values."""

from __future__ import annotations

from typing import Any

import pytest

from amqp_server.management.http.list_query import COLUMN_PARTS_MAX, COLUMNS_MAX
from tests.management.conftest import ManagementServer

NAMES = ("Alpha", "beta", "gamma", "delta")


@pytest.fixture(scope="module")
def server(shared_management_server: ManagementServer) -> ManagementServer:
    """Give a broker with a few queues and a message."""
    for name in NAMES:
        assert shared_management_server.put(f"/api/queues/%2F/{name}").status == 201
    shared_management_server.ask(
        "messages.publish",
        vhost="/",
        exchange="",
        routing_key="gamma",
        properties={},
        body="eA==",
    )
    return shared_management_server


def names(value: Any) -> list[str]:  # noqa: ANN401 - a JSON value
    """Return the names of the objects of a list or of a page."""
    return [each["name"] for each in (value["items"] if isinstance(value, dict) else value)]


@pytest.mark.parametrize(
    "columns",
    [",".join(f"a{n}" for n in range(COLUMNS_MAX + 1)), ".".join("a" * (COLUMN_PARTS_MAX + 1))],
    ids=["many", "deep"],
)
def test_too_many_columns_are_refused(server: ManagementServer, columns: str) -> None:
    for path in ("/api/queues", "/api/queues/%2F/beta", "/api/overview"):
        reply = server.get(f"{path}?columns={columns}")

        assert (reply.status, reply.json["error"]) == (400, "bad_request"), path
        assert reply.json["reason"].startswith("columns names ")
    most = ",".join(["name", *(f"a{n}" for n in range(COLUMNS_MAX - 1))])
    assert server.get(f"/api/queues/%2F/beta?columns={most}").json == {"name": "beta"}


def test_columns_select_fields_by_names_with_dots(server: ManagementServer) -> None:
    found = server.get("/api/queues?columns=name,garbage_collection.minor_gcs,zzz,name.x").json

    assert found[0] == {"name": "Alpha", "garbage_collection": {"minor_gcs": 0}}
    one = server.get("/api/queues/%2F/beta?columns=name,vhost").json
    assert one == {"name": "beta", "vhost": "/"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["Alpha", "beta", "delta", "gamma"]),
        ("sort=name&sort_reverse=true", ["gamma", "delta", "beta", "Alpha"]),
        ("sort=messages&name=a%24&use_regex=true&page=1&sort_reverse=true", ["gamma"]),
    ],
)
def test_a_list_is_sorted(query: str, expected: list[str], server: ManagementServer) -> None:
    assert names(server.get(f"/api/queues?{query}").json)[: len(expected)] == expected


@pytest.mark.parametrize("key", ["no.such.key", "messages_details.rate", "arguments"])
def test_a_list_is_sorted_by_any_key(key: str, server: ManagementServer) -> None:
    assert sorted(names(server.get(f"/api/queues?sort={key}").json)) == sorted(NAMES)


def test_an_empty_sort_is_no_error(server: ManagementServer) -> None:
    assert sorted(names(server.get("/api/queues?sort=").json)) == sorted(NAMES)


def test_a_page_has_its_numbers_around_it(server: ManagementServer) -> None:
    found = server.get("/api/queues?page=2&page_size=3&columns=name").json

    assert found == {
        "filtered_count": 4,
        "item_count": 1,
        "items": [{"name": "gamma"}],
        "page": 2,
        "page_count": 2,
        "page_size": 3,
        "total_count": 4,
    }


def test_the_last_page_is_the_last_one(server: ManagementServer) -> None:
    """There are four queues: two full pages, and no empty third one."""
    last = server.get("/api/queues?page=2&page_size=2&columns=name").json
    assert (len(last["items"]), last["page_count"]) == (2, 2)
    for query, page in (("page=3&page_size=2", 3), ("page=2&page_size=4", 2)):
        reply = server.get(f"/api/queues?{query}")
        assert (reply.status, reply.json["error"]) == (400, "page_out_of_range")
        assert f"page: {page} " in reply.json["reason"]
    # The first page of nothing is empty.
    assert server.get("/api/queues?page=1&name=no-such").json["items"] == []


def test_only_page_makes_pages(server: ManagementServer) -> None:
    assert isinstance(server.get("/api/queues?name=beta&page_size=1").json, list)
    assert len(server.get("/api/queues?name=beta&page_size=1").json) == 4
    found = server.get("/api/queues?page=1&pagination=false").json
    assert (found["page_size"], found["total_count"]) == (100, 4)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("name=ETA", ["beta"]),
        ("name=a.p", []),
        ("name=^.(a|e)&use_regex=true", ["beta", "delta", "gamma"]),
        ("name=^a&use_regex=true", ["Alpha"]),
        ("name=", ["Alpha", "beta", "delta", "gamma"]),
    ],
)
def test_a_page_is_filtered_by_name(
    query: str, expected: list[str], server: ManagementServer
) -> None:
    found = server.get(f"/api/queues?page=1&{query}".replace("^", "%5E")).json

    assert names(found) == expected
    assert (found["filtered_count"], found["total_count"]) == (len(expected), 4)


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        (
            "page=9&page_size=2",
            "page_out_of_range",
            "Page out of range, page: 9 page size: 2, len: 4",
        ),
        (
            "page=0",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 0, page size undefined",
        ),
        (
            "page=1&page_size=501",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 1, page size 501",
        ),
        ("page=x", "bad_request", "Pagination parameters are invalid"),
        (
            "page=1&name=%28&use_regex=true",
            "bad_request",
            "Pagination parameters are invalid",
        ),
        (
            "msg_rates_age=600000&msg_rates_incr=1",
            "bad_request",
            "Invalid range parameters: age 600000, incr 1",
        ),
    ],
)
def test_wrong_parameters_are_refused_with_the_texts_of_rabbitmq(
    query: str, error: str, reason: str, server: ManagementServer
) -> None:
    reply = server.get(f"/api/queues?{query}")

    assert reply.status == 400
    assert reply.json == {"error": error, "reason": reason}


def test_the_first_page_of_nothing_is_empty(server: ManagementServer) -> None:
    found = server.get("/api/connections?page=1").json

    assert (found["items"], found["page_count"], found["total_count"]) == ([], 0, 0)


def test_a_pattern_that_would_never_end_is_refused(server: ManagementServer) -> None:
    name = "a" * 60 + "d"
    server.put(f"/api/queues/%2F/{name}")
    reply = server.get("/api/queues?page=1&use_regex=true&name=%28a%7Caa%29%2B%24b")
    server.delete(f"/api/queues/%2F/{name}")

    assert reply.status == 400
    assert reply.json["reason"] == "the regular expression takes too long"


def test_counters_can_be_left_out(server: ManagementServer) -> None:
    plain = server.get("/api/queues?disable_stats=true&page=1").json["items"]
    totals = server.get("/api/queues?disable_stats=true&enable_queue_totals=true").json

    assert not {"messages", "message_stats", "consumers"} & plain[0].keys()
    assert {"name", "vhost", "type", "state", "node", "arguments"} <= plain[0].keys()
    by_name = {each["name"]: each for each in totals}
    assert by_name["gamma"]["messages"] == by_name["gamma"]["messages_ready"] == 1
    assert by_name["beta"]["messages_unacknowledged"] == 0


def test_past_values_are_shown_when_asked_for(server: ManagementServer) -> None:
    query = "lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=30"
    found = server.get(f"/api/queues/%2F/gamma?{query}").json

    lengths = found["messages_details"]
    assert set(lengths) == {"rate", "samples", "avg_rate", "avg", "began"}
    assert len(lengths["samples"]) == 13
    times = [each["timestamp"] for each in lengths["samples"]]
    assert times == sorted(times, reverse=True)
    assert all(time % 5000 == 0 for time in times)
    assert len(found["message_stats"]["publish_details"]["samples"]) == 3
    began = {each["began"] for each in (lengths, found["message_stats"]["publish_details"])}
    assert len(began) == 1
    assert began < {0, *range(times[-1], times[0] + 10_000, 5000)}


def test_ranges_that_are_no_numbers_are_ignored(server: ManagementServer) -> None:
    found = server.get("/api/overview?lengths_age=x&lengths_incr=5").json

    assert set(found["queue_totals"]["messages_details"]) == {"rate"}
