"""The commands that publish and take messages do what a client of AMQP does."""

import asyncio
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.control import body_uploads, publish_and_get
from amqp_server.control.json_properties import properties_to_json
from tests.amqp_client import connect
from tests.control.asking import Asking
from tests.threaded_server import ThreadedServer

GET = {"vhost": "/", "queue": "q", "count": 10, "ack_mode": "ack_requeue_false", "body_bytes": -1}


def publish(asking: Asking, body: bytes, *, key: str = "q", **more: Any) -> dict[str, bool]:  # noqa: ANN401 - arguments of the command
    arguments = {"vhost": "/", "exchange": "", "routing_key": key, "properties": {}}
    encoded = b64encode(body).decode()
    done = asking.ask("messages.publish", **{**arguments, "body": encoded, **more})
    assert isinstance(done, dict)
    return done


def got(asking: Asking, **change: object) -> list[tuple[bytes, bool]]:
    """Return body and redelivered of the messages that were taken."""
    rows = asking.listed("messages.get", "messages", **{**GET, **change})
    return [(b64decode(row["body"]), row["redelivered"]) for row in rows]


def test_a_message_arrives_as_it_was_published(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    asking.declare("q")
    properties = {
        "content_type": "text/plain",
        "headers": {"text": "é", "number": 5, "list": [True, 1.5, {"a": "b"}]},
        "delivery_mode": 2,
        "priority": 3,
        "correlation_id": "c",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 1_700_000_000,
        "type": "t",
        "app_id": "a",
        "unknown": "is ignored",
    }
    assert publish(asking, b"\x00\xff", properties=properties) == {
        "routed": True,
        "confirmed": True,
    }
    (row,) = asking.listed("messages.get", "messages", **{**GET, "ack_mode": "ack_requeue_true"})
    del properties["unknown"]
    assert row == {
        "payload_bytes": 2,
        "redelivered": False,
        "exchange": "",
        "routing_key": "q",
        "message_count": 0,
        "properties": properties,
        "body": "AP8=",
    }
    with connect(threaded_server.address) as client:
        client.open_channel()
        message = client.get("q", no_ack=True)
    assert message is not None
    assert (message.body, message.properties.headers) == (
        b"\x00\xff",
        {"text": "é", "number": 5, "list": [True, 1.5, {"a": "b"}]},
    )
    assert message.properties.delivery_mode == 2


def test_a_message_that_no_queue_gets_is_not_routed(asking: Asking) -> None:
    assert publish(asking, b"x", key="nowhere") == {"routed": False, "confirmed": True}


def test_a_full_queue_refuses_a_message(asking: Asking) -> None:
    asking.declare("q", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    assert publish(asking, b"1")["confirmed"] is True
    assert publish(asking, b"2") == {"routed": True, "confirmed": False}
    assert got(asking) == [(b"1", False)]


def test_what_is_confirmed_survives_a_restart(tmp_path: Path) -> None:
    storage_path = tmp_path / "data"
    with ThreadedServer(storage_path):
        asking = Asking(storage_path)
        asking.declare("q")
        publish(asking, b"stays", properties={"delivery_mode": 2})
        publish(asking, b"goes", properties={"delivery_mode": 2})
        assert [body for body, _ in got(asking, count=1)] == [b"stays"]
        publish(asking, b"transient", properties={})
    with ThreadedServer(storage_path):
        assert [body for body, _ in got(Asking(storage_path))] == [b"goes"]


@pytest.mark.parametrize(
    ("ack_mode", "left", "dead"),
    [
        ("ack_requeue_false", [], []),
        ("ack_requeue_true", [b"1", b"2"], []),
        ("reject_requeue_true", [b"1", b"2"], []),
        ("reject_requeue_false", [], [b"1", b"2"]),
    ],
)
def test_taken_messages_are_settled_requeued_or_dead_lettered(
    asking: Asking, ack_mode: str, left: list[bytes], dead: list[bytes]
) -> None:
    asking.declare("dead")
    asking.declare("q", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for body in (b"1", b"2"):
        publish(asking, body)
    assert got(asking, ack_mode=ack_mode) == [(b"1", False), (b"2", False)]
    assert got(asking) == [(body, True) for body in left]
    assert [body for body, _ in got(asking, queue="dead")] == dead


def test_an_answer_is_bounded_in_messages_and_bytes(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking.declare("q")
    for number in range(6):
        publish(asking, b"%d" % number * 100)
    keep = {"ack_mode": "ack_requeue_true"}
    assert len(got(asking, **keep, count=-1)) == 6
    assert len(got(asking, **keep, count=2)) == 2
    assert len(got(asking, **keep, count=0)) == 0
    cut = asking.listed("messages.get", "messages", **{**GET, **keep, "count": 1, "body_bytes": 3})
    assert [(b64decode(row["body"]), row["payload_bytes"]) for row in cut] == [(b"000", 100)]
    monkeypatch.setattr(publish_and_get, "GET_BYTES_MAX", 250)
    assert len(got(asking, **keep, count=-1)) == 3
    monkeypatch.setattr(publish_and_get, "GET_MESSAGES_MAX", 2)
    assert len(got(asking, **keep, count=-1)) == 2


def test_a_large_body_comes_and_goes_in_parts(asking: Asking) -> None:
    asking.declare("q")
    body = bytes(range(256)) * 4096
    name = ""
    for at in range(0, 600_000, 200_000):
        part = b64encode(body[at : at + 200_000]).decode()
        name = asking.ask("messages.upload", upload=name, body=part)
    publish(asking, body[600_000:], upload=name)
    error = asking.refusal(
        "messages.publish",
        vhost="/",
        exchange="",
        routing_key="q",
        properties={},
        body="",
        upload=name,
    )
    assert error.kind == "not_found"

    result, reports = asking.follow("messages.get", **GET)
    assert result == {"messages": 1}
    (row,) = reports[0]["messages"]
    parts = [row["body"], *(report["body"] for report in reports[1:])]
    assert len(parts) > 1
    assert b"".join(map(b64decode, parts)) == body


def test_bodies_in_parts_are_bounded(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    part = b64encode(b"x" * 1000).decode()
    monkeypatch.setattr(body_uploads, "BYTES_MAX", 2500)
    name = asking.ask("messages.upload", upload="", body=part)
    asking.ask("messages.upload", upload=name, body=part)
    assert asking.refusal("messages.upload", upload=name, body=part).kind == "limit_reached"
    # It is gone, and its room is free again.
    assert asking.refusal("messages.upload", upload=name, body=part).kind == "not_found"
    monkeypatch.setattr(body_uploads, "UPLOADS_MAX", 2)
    for _ in range(2):
        asking.ask("messages.upload", upload="", body=part)
    assert asking.refusal("messages.upload", upload="", body="").kind == "limit_reached"


def test_a_body_of_which_nothing_more_comes_is_dropped(
    asking: Asking, threaded_server: ThreadedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_uploads, "IDLE_SECONDS_MAX", 0.0)
    name = asking.ask("messages.upload", upload="", body="")
    threaded_server.run(lambda: asyncio.sleep(0.001))
    assert asking.refusal("messages.upload", upload=name, body="").kind == "not_found"


def test_messages_of_a_client_that_goes_away_return_to_their_places(
    threaded_server: ThreadedServer, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking.declare("q")
    for number in range(3):
        publish(asking, b"%d" % number)

    async def gone(*_: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(publish_and_get, "_send", gone)
    asking.refusal("messages.get", **GET)
    monkeypatch.undo()
    queue = threaded_server.server.broker.vhosts["/"].queues["q"]
    threaded_server.wait_until(lambda: queue.ready_count == 3)
    assert got(asking) == [(b"0", True), (b"1", True), (b"2", True)]


def test_messages_of_others_are_not_taken(threaded_server: ThreadedServer, asking: Asking) -> None:
    asking.declare("q", **{"x-queue-type": "quorum"})
    for number in range(2):
        publish(asking, b"%d" % number)
    with connect(threaded_server.address) as client:
        client.open_channel()
        client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
        client.call(Basic.Consume(queue="q"), Basic.ConsumeOk)
        client.expect_delivery()
        (row,) = asking.listed("messages.get", "messages", **GET)
        assert (b64decode(row["body"]), row["message_count"]) == (b"1", 0)
        client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
    assert asking.refused_text(404, "messages.get", **GET) == (
        "NOT_FOUND - no queue 'q' in vhost '/'"
    )


@pytest.mark.parametrize(
    ("properties", "fault"),
    [
        ({"delivery_mode": "2"}, "not_int"),
        ({"priority": True}, "not_int"),
        ({"priority": 256}, "out_of_range"),
        ({"timestamp": -1}, "out_of_range"),
        ({"content_type": 5}, "not_string"),
        ({"message_id": "m" * 256}, "too_long"),
        ({"headers": 5}, "not_table"),
    ],
)
def test_wrong_properties_are_refused(
    asking: Asking, properties: dict[str, object], fault: str
) -> None:
    publishing = {"vhost": "/", "exchange": "", "routing_key": "q", "body": ""}
    error = asking.refusal("messages.publish", **publishing, properties=properties)
    assert (error.kind, error.details["fault"]) == ("invalid_argument", fault)
    assert error.details["property"] == next(iter(properties))


def test_wrong_arguments_are_refused(asking: Asking) -> None:
    asking.declare("q")
    publishing = {"vhost": "/", "exchange": "", "routing_key": "q", "properties": {}}
    assert "base64" in asking.refusal("messages.publish", **publishing, body="!").reason
    for change in ({"ack_mode": "x"}, {"count": -2}, {"body_bytes": -2}):
        assert asking.refusal("messages.get", **{**GET, **change}).kind == "invalid_argument"
    internal = {**publishing, "exchange": "amq.rabbitmq.trace", "body": ""}
    assert "internal exchange" in asking.refused_text(403, "messages.publish", **internal)
    expired = {**publishing, "properties": {"expiration": "x"}, "body": ""}
    assert "invalid expiration" in asking.refused_text(406, "messages.publish", **expired)


def test_nothing_is_published_while_an_alarm_is_on(
    threaded_server: ThreadedServer, asking: Asking
) -> None:
    asking.declare("q")
    threaded_server.server.alarms.is_disk_low = True
    publishing = {"vhost": "/", "exchange": "", "routing_key": "q", "properties": {}, "body": ""}
    error = asking.refusal("messages.publish", **publishing)
    assert (error.kind, "low on disk" in error.reason) == ("limit_reached", True)


def test_headers_that_cannot_be_decoded_hide_no_other_property() -> None:
    entries = b"\x06tenantS\x00\x00\x00\x01a" + b"\x01bZ"
    octets = b"\x30\x00" + len(entries).to_bytes(4, "big") + entries + b"\x02"
    assert properties_to_json(octets) == {"headers": {"tenant": "a"}, "delivery_mode": 2}
