"""pika: publisher confirms, returns, and messages that come out as they went in."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from tests.interop.conftest import Connect
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop

LARGE_BYTES = 5 * 1024 * 1024
FRAME_OVERHEAD_BYTES = 8
PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_each_publish_is_confirmed(
    channel: BlockingChannel, name: str, durable: bool, delivery_mode: int
) -> None:
    channel.confirm_delivery()
    channel.queue_declare(name, durable=durable)
    for number in range(20):
        properties = pika.BasicProperties(delivery_mode=delivery_mode)
        channel.basic_publish("", name, bytes([number]), properties, mandatory=True)
    taken = [channel.basic_get(name, auto_ack=True)[2] for _ in range(20)]
    assert taken == [bytes([number]) for number in range(20)]
    channel.queue_delete(name)


def test_an_unroutable_mandatory_message_comes_back_whole_before_its_confirm(
    channel: BlockingChannel, name: str
) -> None:
    channel.confirm_delivery()
    properties = pika.BasicProperties(message_id="m", headers={"a": 1}, delivery_mode=2)
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("amq.direct", name, b"x" * 200_000, properties, mandatory=True)
    (returned,) = caught.value.messages
    assert returned.method.reply_code == 312
    assert returned.method.reply_text == "NO_ROUTE"
    assert (returned.method.exchange, returned.method.routing_key) == ("amq.direct", name)
    assert returned.body == b"x" * 200_000
    assert (returned.properties.message_id, returned.properties.headers) == ("m", {"a": 1})


def test_an_unroutable_message_that_is_not_mandatory_is_confirmed(
    channel: BlockingChannel, name: str
) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", name, b"nowhere")
    channel.basic_publish("amq.topic", name, b"nowhere", PERSISTENT)


def test_returns_without_confirms_reach_the_callback(channel: BlockingChannel, name: str) -> None:
    returned: list[tuple[str, bytes]] = []
    channel.add_on_return_callback(
        lambda _, method, __, body: returned.append((method.routing_key, body))
    )
    channel.queue_declare(name)
    for number in range(3):
        channel.basic_publish("", f"{name}-{number}", bytes([number]), mandatory=True)
        channel.basic_publish("", name, b"arrives", mandatory=True)
    assert channel.queue_declare(name, passive=True).method.message_count == 3
    channel.connection.process_data_events()
    assert returned == [(f"{name}-{number}", bytes([number])) for number in range(3)]


def test_a_publish_to_a_missing_exchange_closes_its_channel_only(
    connection: pika.BlockingConnection, name: str
) -> None:
    wrong, right = connection.channel(), connection.channel()
    right.queue_declare(name)
    with pytest.raises(ChannelClosedByBroker) as caught:  # noqa: PT012 - at any of these
        for _ in range(100):
            wrong.basic_publish("nowhere", name, b"lost")
        wrong.queue_declare(name, passive=True)
    assert caught.value.reply_code == 404
    assert caught.value.reply_text == "NOT_FOUND - no exchange 'nowhere' in vhost '/'"
    right.basic_publish("", name, b"kept")
    assert right.basic_get(name, auto_ack=True)[2] == b"kept"
    assert connection.channel(wrong.channel_number).queue_purge(name).method.message_count == 0


@pytest.mark.parametrize("size", [0, 1, 131_064, 131_065, 262_128, LARGE_BYTES])
def test_a_body_of_any_size_comes_back_in_frames_that_fit(
    channel: BlockingChannel, name: str, size: int
) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    channel.confirm_delivery()
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, body, PERSISTENT, mandatory=True)
    assert channel.basic_get(name)[2] == body
    channel.basic_recover(requeue=True)
    for method, _, again in channel.consume(name, inactivity_timeout=HANG_SECONDS):
        assert method.redelivered
        assert again == body
        channel.basic_ack(method.delivery_tag)
        break
    channel.cancel()
    channel.queue_delete(name)


def test_a_small_frame_size_splits_messages_both_ways(connect: Connect, name: str) -> None:
    channel = connect(frame_max=4096).channel()
    channel.confirm_delivery()
    channel.queue_declare(name)
    bodies = [bytes([size % 251]) * size for size in (0, 4087, 4088, 4089, 8176, 8177, 100_000)]
    for body in bodies:
        channel.basic_publish("", name, body, mandatory=True)
    wide = connect().channel()
    assert [wide.basic_get(name)[2] for _ in bodies] == bodies
    wide.basic_recover(requeue=True)
    assert [channel.basic_get(name, auto_ack=True)[2] for _ in bodies] == bodies


HEADERS: dict[str, Any] = {
    "bool": [True, False],
    "int": 7,
    "negative": -7,
    "long": 1 << 40,
    "negative_long": -(1 << 40),
    "decimal": Decimal("-12.34"),
    "text": "ä€𝄞",
    "empty": "",
    "octets": b"\x00\xff\x80",
    "array": [1, "two", [3, None], {"four": [True]}],
    "timestamp": datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC),
    "table": {"nested": {"deeper": {"deepest": []}}},
    "void": None,
}


def test_all_properties_and_kinds_of_header_values_come_back(
    channel: BlockingChannel, name: str
) -> None:
    sent = pika.BasicProperties(
        content_type="application/ä",
        content_encoding="gzip",
        headers=HEADERS,
        delivery_mode=2,
        priority=9,
        correlation_id="c" * 255,
        reply_to="r",
        expiration="3600000",
        message_id="m",
        timestamp=1_709_209_815,
        type="t",
        user_id="guest",
        app_id="a",
        cluster_id="cl",
    )
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, b"body", sent)
    _, got, body = channel.basic_get(name)
    assert body == b"body"
    assert {**vars(got), "headers": None} == {**vars(sent), "headers": None}
    assert _naive(got.headers) == _naive(HEADERS)


PROPERTIES: dict[str, Callable[[], pika.BasicProperties]] = {
    "none": pika.BasicProperties,
    "no_headers": lambda: pika.BasicProperties(headers={}),
    "transient": lambda: pika.BasicProperties(delivery_mode=1),
    "empty_strings": lambda: pika.BasicProperties(content_type="", correlation_id="", app_id=""),
    "zeros": lambda: pika.BasicProperties(priority=0, timestamp=0),
    "foreign_mode": lambda: pika.BasicProperties(delivery_mode=7),
}


@pytest.mark.parametrize("kind", PROPERTIES)
def test_absent_properties_stay_absent_and_empty_ones_empty(
    channel: BlockingChannel, name: str, kind: str
) -> None:
    sent = PROPERTIES[kind]()
    channel.queue_declare(name, durable=True)
    channel.basic_publish("", name, b"", sent)
    got = channel.basic_get(name, auto_ack=True)[1]
    assert vars(got) == vars(sent)


def test_a_user_id_that_is_not_the_login_closes_the_channel(
    channel: BlockingChannel, name: str
) -> None:
    channel.confirm_delivery()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.basic_publish("", name, b"", pika.BasicProperties(user_id="somebody"))
    assert (caught.value.reply_code, caught.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was "
        "'guest'",
    )


def _naive(value: Any) -> Any:  # noqa: ANN401 - any header value
    """Return a header value with its timestamps as pika gives them back: UTC without saying so."""
    match value:
        case dict():
            return {key: _naive(item) for key, item in value.items()}
        case list():
            return [_naive(item) for item in value]
        case datetime():
            return value.replace(tzinfo=None)
        case _:
            return value
