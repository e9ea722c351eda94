"""What the stored directories were filled with, and what must come out of them.

Written once for each format version and never changed afterwards: the archives beside it
cannot be made again by code that has moved on. `make.py` fills a server and packs its directory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from pamqp.commands import Basic, Channel, Exchange, Queue, Tx

from tests.amqp_client import AmqpClient, Message, connect

VHOST: Final = "stored/ö %2F"
NASTY_NAMES: Final = ("../x", "a/b", "%2F", "ü" * 127, "CON", ".hidden", "Case", "case", "a b.")
PLAIN_COUNT: Final = 300
ACKED_BELOW: Final = 100
LARGE: Final = bytes(range(256)) * 1_200

PROPERTIES: Final = Basic.Properties(
    content_type="application/json",
    content_encoding="utf-8",
    headers={
        "text": "grüße",
        "octets": bytearray(b"\x00\xff"),
        "yes": True,
        "small": 1,
        "large": -(1 << 40),
        "real": 2.5,
        "exact": Decimal("3.14"),
        "time": datetime(2026, 11, 21, tzinfo=UTC),
        "list": [1, "two", [3]],
        "table": {"a": {"b": None}},
    },
    delivery_mode=2,
    priority=3,
    correlation_id="correlation",
    reply_to="reply",
    message_id="message",
    timestamp=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    message_type="type",
    user_id="guest",
    app_id="app",
)
PRIORITIES: Final = [Basic.Properties(delivery_mode=2, priority=number % 6) for number in range(60)]

# Queues that only a server of format version 1 has.
PACKED: Final = {"x-compression": "zstd"}
PACKED_COUNT: Final = 400
COMPACTED: Final = {"x-segment-max-bytes": 65_536}
COMPACTED_COUNT: Final = 600


def fill(address: tuple[str, int], version: int) -> None:
    """Tell the scenario to an empty server of a format version."""
    with _channel(address) as client:
        _declare(client)
        _fill_plain(client)
        _fill_priorities(client)
        _fill_counts(client)
        _fill_transaction(client)
        if version >= 1:
            _fill_packed(client)
            _fill_compacted(client)
    with _channel(address, VHOST) as client:
        client.declare("elsewhere")
        _publish(client, "elsewhere", [b"elsewhere"])


def check(address: tuple[str, int], version: int, *, was_clean: bool) -> None:
    """Find all of it again, each message once, bit for bit, with the right flags."""
    with _channel(address) as client:
        _check_routes(client)
        _check_plain(client, was_clean=was_clean)
        _check_priorities(client)
        _check_counts(client, was_clean=was_clean)
        for queue in ("transaction.a", "transaction.b"):
            assert _bodies(client, queue) == [b"%d" % number for number in range(10)]
        for name in NASTY_NAMES:
            assert _bodies(client, name) == [name.encode()]
        if version >= 1:
            found = [b"packed %d" % number + bytes(500) for number in range(PACKED_COUNT)]
            assert _bodies(client, "packed") == found
            live = range(0, COMPACTED_COUNT, 100)
            assert _bodies(client, "compacted") == [_compacted(number) for number in live]
    with _channel(address, VHOST) as client:
        assert _bodies(client, "elsewhere") == [b"elsewhere"]


@contextmanager
def _channel(address: tuple[str, int], vhost: str = "/") -> Iterator[AmqpClient]:
    with connect(address, vhost=vhost) as client:
        client.open_channel(confirms=True)
        yield client


def _declare(client: AmqpClient) -> None:
    exchange = Exchange.Declare(0, "topics", "topic", False, True)
    client.call(exchange, Exchange.DeclareOk)
    headers = Exchange.Declare(
        0, "headers", "headers", False, True, False, False, False, {"alternate-exchange": "topics"}
    )
    client.call(headers, Exchange.DeclareOk)
    client.declare("routed")
    client.call(Queue.Bind(0, "routed", "topics", "a.*.c"), Queue.BindOk)
    match: dict[str, Any] = {"x-match": "all", "kind": "good"}
    client.call(Queue.Bind(0, "routed", "headers", "", False, match), Queue.BindOk)
    client.call(Exchange.Bind(0, "headers", "topics", "h.#"), Exchange.BindOk)
    for name in NASTY_NAMES:
        client.declare(name)
        _publish(client, name, [name.encode()])


def _check_routes(client: AmqpClient) -> None:
    client.publish(b"topic", "a.b.c", "topics")
    client.publish(b"alternate", "a.x.c", "headers")
    through = Basic.Properties(headers={"kind": "good"})
    client.publish(b"through", "h.1", "topics", properties=through)
    client.expect_confirmed()
    assert _bodies(client, "routed") == [b"topic", b"alternate", b"through"]


def _publish(
    client: AmqpClient,
    queue: str,
    bodies: list[bytes],
    properties: Basic.Properties | None = None,
) -> None:
    for octets in bodies:
        client.publish(octets, queue, properties=properties or Basic.Properties(delivery_mode=2))
    client.expect_confirmed()


def _fill_plain(client: AmqpClient) -> None:
    client.declare("plain")
    _publish(client, "plain", [b"plain %d" % number for number in range(PLAIN_COUNT)], PROPERTIES)
    _publish(client, "plain", [LARGE], PROPERTIES)
    _publish(client, "plain", [b"gone by the restart"], Basic.Properties(delivery_mode=1))
    client.open_channel(2)
    client.consume("plain", prefetch=ACKED_BELOW, channel=2)
    tags = [client.expect_delivery(2).tag for _ in range(ACKED_BELOW)]
    for tag in tags[::2]:
        client.send(Basic.Ack(tag), 2)
    # As many again come in the place of those that were acknowledged, and go back as well.
    for _ in tags[::2]:
        client.expect_delivery(2)
    client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk, 2)


def _check_plain(client: AmqpClient, *, was_clean: bool) -> None:
    found = _take(client, "plain")
    left = [number for number in range(PLAIN_COUNT) if number >= ACKED_BELOW or number % 2]
    assert [each.body for each in found[:-1]] == [b"plain %d" % number for number in left]
    assert found[-1].body == LARGE
    for number, each in zip([*left, PLAIN_COUNT], found, strict=True):
        assert dict(each.properties) == dict(PROPERTIES)
        assert each.redelivered == (not was_clean or number < ACKED_BELOW * 3 // 2)


def _fill_priorities(client: AmqpClient) -> None:
    client.declare("priorities", arguments={"x-max-priority": 5})
    for number, properties in enumerate(PRIORITIES):
        client.publish(b"%d" % number, "priorities", properties=properties)
    client.expect_confirmed()


def _check_priorities(client: AmqpClient) -> None:
    order = sorted(range(60), key=lambda number: -(number % 6))
    assert _bodies(client, "priorities") == [b"%d" % number for number in order]


def _fill_counts(client: AmqpClient) -> None:
    client.declare("counted", arguments={"x-queue-type": "quorum", "x-delivery-limit": 10})
    _publish(client, "counted", [b"counted"])
    for _ in range(3):
        message = client.get("counted", no_ack=False)
        assert message is not None
        client.send(Basic.Nack(message.tag, requeue=True))


def _check_counts(client: AmqpClient, *, was_clean: bool) -> None:
    (message,) = _take(client, "counted")
    assert message.body == b"counted"
    headers: dict[str, Any] = message.properties.headers or {}
    # A kill may cost the returns since the last checkpoint.
    assert headers.get("x-delivery-count", 0) in ((3,) if was_clean else range(4))


def _fill_transaction(client: AmqpClient) -> None:
    client.declare("transaction.a")
    client.declare("transaction.b")
    client.open_channel(3)
    client.call(Tx.Select(), Tx.SelectOk, 3)
    for number in range(10):
        for queue in ("transaction.a", "transaction.b"):
            client.publish(b"%d" % number, queue, channel=3)
    client.call(Tx.Commit(), Tx.CommitOk, 3)


def _fill_packed(client: AmqpClient) -> None:
    client.declare("packed", arguments=PACKED)
    bodies = [b"packed %d" % number + bytes(500) for number in range(PACKED_COUNT)]
    _publish(client, "packed", bodies)


def _fill_compacted(client: AmqpClient) -> None:
    """Leave one message in a hundred, so that sealed segments are rewritten."""
    client.declare("compacted", arguments=COMPACTED)
    _publish(client, "compacted", [_compacted(number) for number in range(COMPACTED_COUNT)])
    client.open_channel(4)
    client.consume("compacted", channel=4)
    for number in range(COMPACTED_COUNT):
        delivery = client.expect_delivery(4)
        if number % 100:
            client.send(Basic.Ack(delivery.tag), 4)
    client.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk, 4)


def _compacted(number: int) -> bytes:
    return b"compacted %d " % number + bytes(1_000)


def _take(client: AmqpClient, queue: str) -> list[Message]:
    found = []
    while (message := client.get(queue)) is not None:
        found.append(message)
    return found


def _bodies(client: AmqpClient, queue: str) -> list[bytes]:
    return [message.body for message in _take(client, queue)]
