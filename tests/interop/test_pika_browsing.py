"""pika: browsing a queue without consuming it."""

from typing import Any

import pika
import pytest

from tests.interop.conftest import Connect
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop


def test_a_queue_is_browsed_and_consumed_at_the_same_time(connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True, arguments={"x-retain-for": 3_600_000})
    persistent = pika.BasicProperties(delivery_mode=2, headers={"own": 1})
    for number in range(3):
        channel.basic_publish("", "q", b"%d" % number, persistent)
    method, _, _ = channel.basic_get("q")
    channel.basic_ack(method.delivery_tag)
    found: list[tuple[bytes, Any, Any, Any]] = []

    def take(_: object, __: object, properties: Any, body: bytes) -> None:  # noqa: ANN401
        headers = properties.headers
        found.append((body, headers["x-stream-offset"], headers["x-browse-state"], headers["own"]))

    channel.basic_consume("q", take, auto_ack=True, arguments={"x-browse": True})
    while len(found) < 3:
        connection.process_data_events(time_limit=HANG_SECONDS)
    assert found == [(b"0", 0, "settled", 1), (b"1", 1, "ready", 1), (b"2", 2, "ready", 1)]
    declared = channel.queue_declare("q", passive=True)
    assert (declared.method.message_count, declared.method.consumer_count) == (2, 0)
    got = channel.basic_get("q", auto_ack=True)
    assert (got[2], got[0].redelivered) == (b"1", False)


def test_a_generator_of_pika_can_browse(connect: Connect) -> None:
    channel = connect().channel()
    channel.queue_declare("looked-at")
    for number in range(4):
        channel.basic_publish("", "looked-at", b"%d" % number)
    bodies = []
    arguments = {"x-browse": True, "x-stream-offset": -3}
    for method, _, body in channel.consume(
        "looked-at", arguments=arguments, inactivity_timeout=HANG_SECONDS
    ):
        bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(bodies) == 3:
            break
    channel.cancel()
    assert bodies == [b"1", b"2", b"3"]
    assert channel.queue_declare("looked-at", passive=True).method.message_count == 4
