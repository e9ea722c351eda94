"""Headers that nobody can decode are refused; a log of an earlier version has them all the same.

What such a log holds is passed on octet for octet, also where the broker adds a header.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Connection, Exchange, Queue
from pamqp.common import FieldTable

from amqp_server.protocol import content_assembly
from amqp_server.protocol.field_values import FieldValue, Table
from amqp_server.protocol.readable_headers import split_headers
from amqp_server.protocol.tables import decode_table
from tests.amqp_client import AmqpClient, connect
from tests.conformance.raw_content import HEADERS_FLAG, publish_raw, table
from tests.conformance.test_dead_letter_headers import DEATH, expect_death
from tests.servers import RunningServer
from tests.threaded_server import ThreadedServer

SOUND = b"\x06tenantS\x00\x00\x00\x01a"
BROKEN = b"\x03abcZ\x00\x01nV"
HEADER, BODY = 2, 3
FLAGS_AT = 12


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AmqpClient]:
    """A client of a broker that takes any headers, as version 0.1 did."""
    monkeypatch.setattr(content_assembly, "copies_in_headers", lambda *_: 0)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("dead")
        yield client


def publish_broken(client: AmqpClient, queue: str) -> None:
    publish_raw(client, queue, HEADERS_FLAG, table(SOUND + BROKEN), b"broken")


def receive_headers(client: AmqpClient) -> Table:
    """Receive a message with `BROKEN` at the end of its headers; return those before it."""
    octets = b""
    header = b""
    while True:
        octets += client.receive_raw()
        while len(octets) >= 7 and len(octets) >= 8 + (size := int.from_bytes(octets[3:7], "big")):
            kind, payload, octets = octets[0], octets[7 : 7 + size], octets[8 + size :]
            if kind == HEADER:
                header = payload
            elif kind == BODY:
                assert payload == b"broken"
                assert struct.unpack_from(">H", header, FLAGS_AT) == (HEADERS_FLAG,)
                readable, others = split_headers(header[FLAGS_AT + 2 :])
                assert others == BROKEN
                headers, _ = decode_table(readable)
                assert headers.pop("tenant") == FieldValue(b"S", b"a")
                return headers


def get(client: AmqpClient, queue: str) -> Table:
    while not client.ready_count(queue):
        pass
    client.send(Basic.Get(queue=queue))
    return receive_headers(client)


def first_death(headers: Table) -> tuple[object, object]:
    deaths = headers["x-death"].value
    assert isinstance(deaths, list)
    death = deaths[0].value
    assert isinstance(death, dict)
    return death["queue"].value, death["reason"].value


TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def test_a_rejected_message_keeps_them(client: AmqpClient) -> None:
    client.declare("q", arguments=TO_DEAD)
    publish_broken(client, "q")
    assert get(client, "q") == {}
    client.send(Basic.Nack(1, requeue=False))

    headers = get(client, "dead")

    assert first_death(headers) == (b"q", b"rejected")
    assert headers["x-first-death-queue"] == FieldValue(b"S", b"q")


def test_an_expired_message_keeps_them(client: AmqpClient) -> None:
    client.declare("q", arguments=TO_DEAD | {"x-message-ttl": 0})
    publish_broken(client, "q")

    assert first_death(get(client, "dead")) == (b"q", b"expired")


def test_a_quorum_queue_counts_deliveries_beside_them(client: AmqpClient) -> None:
    client.declare("q", arguments={"x-queue-type": "quorum"})
    publish_broken(client, "q")
    assert get(client, "q") == {}
    client.send(Basic.Nack(1, requeue=True))

    assert get(client, "q") == {"x-delivery-count": FieldValue(b"l", 1)}


def test_a_stream_puts_its_offset_before_them(client: AmqpClient) -> None:
    client.declare("s", arguments={"x-queue-type": "stream"})
    publish_broken(client, "s")
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
    client.send(Basic.Consume(queue="s", arguments={"x-stream-offset": "first"}))

    assert receive_headers(client) == {"x-stream-offset": FieldValue(b"l", 0)}


def test_bindings_of_headers_see_those_before_them(client: AmqpClient) -> None:
    client.call(Exchange.Declare(exchange="h", exchange_type="headers"), Exchange.DeclareOk)
    bindings: dict[str, FieldTable] = {"dead": {"tenant": "a"}, "other": {"n": None}}
    for queue, wanted in bindings.items():
        client.declare(queue)
        client.call(Queue.Bind(queue=queue, exchange="h", arguments=wanted), Queue.BindOk)
    client.declare("q", arguments={"x-dead-letter-exchange": "h", "x-message-ttl": 0})
    publish_broken(client, "q")

    assert first_death(get(client, "dead")) == (b"q", b"expired")
    assert client.ready_count("other") == 0


def test_what_was_published_beside_refused_headers_is_stored(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        client.publish(b"sound", "q")
        publish_broken(client, "q")
        client.publish(b"too late", "q")
        close = client.expect(Connection.Close, 0)
        assert close.reply_code == 502

        with connect(server.address) as other:
            other.open_channel()
            assert other.ready_count("q") == 1
            message = other.get("q")
            assert message is not None
            assert message.body == b"sound"


@pytest.mark.parametrize(
    "x_death",
    [
        ["a", "b"],
        [1, 2, 3],
        [None],
        [[], [DEATH]],
        [1, "a", None, [], {}, 1.5, True],
        [DEATH | {"count": "many"}],
        [DEATH | {"count": 1.5}],
    ],
    ids=["texts", "numbers", "nothing", "lists", "many kinds", "count as text", "fraction"],
)
def test_a_message_dies_though_its_publisher_has_written_deaths_that_are_none(
    server: RunningServer,
    x_death: Any,  # noqa: ANN401
) -> None:
    """RabbitMQ 3.10 loses these messages: the process that should take them on ends."""
    with connect(server.address) as client:
        client.open_channel()
        client.declare("dead")
        client.declare("q", arguments=TO_DEAD)
        expect_death(client, "q", "dead", x_death)
