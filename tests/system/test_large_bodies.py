"""No way out of the server copies the body of a large message on the event loop."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.body import ContentBody
from pamqp.commands import Basic, Confirm, Connection, Exchange, Queue
from pamqp.common import FieldTable
from pamqp.header import ContentHeader

from amqp_server.base import time_slice
from amqp_server.broker.publishing import message_targets
from amqp_server.broker.routing.steps import Steps
from amqp_server.broker.transfers import dead_letter, delay_queue
from amqp_server.broker.transfers.large_body import LARGE_BYTES, STEP_BYTES, with_body
from amqp_server.connections.client_connection import ClientConnection
from amqp_server.connections.open_connections import Lingering
from amqp_server.protocol.large_delivery import LARGE_MESSAGE_BYTES, LargeFrames, Octets
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

BODY = bytes(range(256)) * 8192
CONSUMERS = 3
REPLY_TO = "amq.rabbitmq.reply-to"


class Sent:
    """What the server hands to the sockets of its clients.

    Attributes:
        whole_bytes_max: Size of the largest octets in one piece.
        bodies: The objects that the pieces are views of, by identity.
    """

    def __init__(self) -> None:
        self.whole_bytes_max = 0
        self.bodies: dict[int, object] = {}

    def note(self, octets: bytes | bytearray | memoryview) -> None:
        if isinstance(octets, memoryview):
            self.bodies[id(octets.obj)] = octets.obj
        else:
            self.whole_bytes_max = max(self.whole_bytes_max, len(octets))


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    sent = Sent()
    write, take = ClientConnection.write, LargeFrames.take

    def note(self: ClientConnection, octets: Octets) -> None:
        if not isinstance(octets, LargeFrames):
            sent.note(octets)
        write(self, octets)

    def note_all(self: LargeFrames, bytes_max: int) -> list[bytes | memoryview]:
        pieces = take(self, bytes_max)
        for piece in pieces:
            sent.note(piece)
        return pieces

    monkeypatch.setattr(ClientConnection, "write", note)
    monkeypatch.setattr(LargeFrames, "take", note_all)
    return sent


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    """A server that keeps no large message in memory."""
    with ThreadedServer(tmp_path, ring_bytes=64 * 1024, ring_bytes_total=1 << 20) as running:
        yield running


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[AmqpClient]:
    with connect(server.address) as running:
        running.open_channel(confirms=True)
        yield running


def publish_into_log(server: ThreadedServer, client: AmqpClient, queue: str) -> None:
    """Publish a large message, and one behind it; return when the log has both."""
    for body in (BODY, b"behind it"):
        client.publish(body, queue, properties=PERSISTENT)
        client.expect_confirmed()
    store = server.server.broker.vhosts["/"].queues[queue].store
    server.wait_until(lambda: store.ring.window_start > 0)


def check(sent: Sent, bodies: int = 1) -> None:
    assert sent.whole_bytes_max < LARGE_MESSAGE_BYTES
    assert len(sent.bodies) == bodies


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_a_delivery_from_the_log(
    server: ThreadedServer, client: AmqpClient, sent: Sent, durable: bool
) -> None:
    client.declare("q", durable=durable)
    publish_into_log(server, client, "q")

    client.consume("q")

    assert client.expect_delivery().body == BODY
    assert client.expect_delivery().body == b"behind it"
    check(sent)


def test_a_get_from_the_log(server: ThreadedServer, client: AmqpClient, sent: Sent) -> None:
    client.declare("q")
    publish_into_log(server, client, "q")

    message = client.get("q")

    assert message is not None
    assert message.body == BODY
    check(sent)


def test_deliveries_of_a_stream(server: ThreadedServer, client: AmqpClient, sent: Sent) -> None:
    """Their headers name the offset; consumers that read the same place share one body."""
    client.declare("s", arguments={"x-queue-type": "stream"})
    publish_into_log(server, client, "s")
    with ExitStack() as clients:
        consumers = [clients.enter_context(connect(server.address)) for _ in range(CONSUMERS)]
        for consumer in consumers:
            consumer.open_channel()
            consumer.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})

        for consumer in consumers:
            message = consumer.expect_delivery()
            assert message.body == BODY
            assert message.properties.headers == {"x-stream-offset": 0}
    check(sent)


def test_a_returned_message(client: AmqpClient, sent: Sent) -> None:
    client.publish(BODY, "nowhere", mandatory=True)

    assert client.expect_return().body == BODY
    check(sent)


def test_direct_replies(server: ThreadedServer, client: AmqpClient, sent: Sent) -> None:
    """Also those that were kept until their client read the first."""
    with connect(server.address) as asker:
        asker.open_channel()
        asker.declare("q", durable=False)
        asker.consume(REPLY_TO, no_ack=True)
        asker.publish(b"question", "q", properties=Basic.Properties(reply_to=REPLY_TO))
        # Another connection may be handled before.
        assert asker.ready_count("q") == 1
        question = client.get("q")
        assert question is not None
        key = question.properties.reply_to
        assert key is not None

        bodies = [BODY + b"%d" % number for number in range(CONSUMERS)]
        for body in bodies:
            client.publish(body, key)
            client.expect_confirmed()

        assert [asker.expect_delivery().body for _ in bodies] == bodies
    check(sent, CONSUMERS)


@pytest.fixture
def turns(server: ThreadedServer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The turn of each step that copies a body; a slice is over after one step."""
    noted: list[int] = []

    def note(front: bytes, body: memoryview) -> Steps[bytes]:
        copying = with_body(front, body)
        while True:
            noted.append(server.server.broker.turn.number)
            try:
                next(copying)
            except StopIteration as end:
                copied: bytes = end.value
                return copied
            yield

    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(message_targets, "with_body", note)
    monkeypatch.setattr(dead_letter, "with_body", note)
    monkeypatch.setattr(delay_queue, "with_body", note)
    return noted


def test_a_dead_letter_is_copied_in_slices(
    server: ThreadedServer, client: AmqpClient, sent: Sent, turns: list[int]
) -> None:
    client.declare("dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.declare("q", arguments=arguments)
    publish_into_log(server, client, "q")
    client.consume("q", prefetch=1)
    delivered = client.expect_delivery()

    client.send(Basic.Reject(delivered.tag, requeue=False))
    assert client.expect_delivery().body == b"behind it"
    server.wait_until(lambda: server.server.broker.vhosts["/"].queues["dead"].ready_count == 1)

    message = client.get("dead")
    assert message is not None
    assert message.body == BODY
    assert message.properties.headers is not None
    assert message.properties.headers["x-first-death-queue"] == "q"
    assert len(set(turns)) == len(turns) > len(BODY) // STEP_BYTES
    check(sent, bodies=2)


def test_a_delayed_message_is_copied_in_slices(
    server: ThreadedServer, client: AmqpClient, turns: list[int]
) -> None:
    client.declare("q")
    delayed = Exchange.Declare(
        exchange="later",
        exchange_type="x-delayed-message",
        arguments={"x-delayed-type": "fanout"},
    )
    client.call(delayed, Exchange.DeclareOk)
    client.call(Queue.Bind(queue="q", exchange="later"), Queue.BindOk)
    headers = Basic.Properties(delivery_mode=2, headers={"x-delay": 1})
    client.publish(BODY, "", "later", properties=headers)
    client.expect_confirmed()
    server.wait_until(lambda: server.server.broker.vhosts["/"].queues["q"].ready_count == 1)

    message = client.get("q")
    assert message is not None
    assert message.body == BODY
    assert message.properties.headers == {"x-delay": -1}
    assert len(set(turns)) == len(turns) > len(BODY) // STEP_BYTES


@pytest.mark.parametrize(
    ("headers", "stored"),
    [({"CC": ["q"]}, {"CC": ["q"]}), ({"BCC": ["q"], "a": "b"}, {"a": "b"})],
    ids=["CC", "BCC"],
)
def test_a_message_with_further_keys(
    client: AmqpClient, turns: list[int], headers: FieldTable, stored: FieldTable
) -> None:
    """Without `BCC` it is stored as it came; the copy that leaves out `BCC` is made in slices."""
    client.declare("q")
    client.publish(BODY, "nowhere", properties=Basic.Properties(headers=headers))
    client.expect_confirmed()

    message = client.get("q")
    assert message is not None
    assert message.body == BODY
    assert message.properties.headers == stored
    if "BCC" in headers:
        assert len(set(turns)) == len(turns) > len(BODY) // STEP_BYTES
    else:
        assert turns == []


def test_a_redelivery_with_its_count(client: AmqpClient, sent: Sent) -> None:
    client.declare("q", arguments={"x-queue-type": "quorum"})
    client.publish(BODY, "q")
    client.expect_confirmed()
    client.consume("q", prefetch=1)
    for count in (None, {"x-delivery-count": 1}, {"x-delivery-count": 2}):
        delivered = client.expect_delivery()
        assert delivered.body == BODY
        assert delivered.properties.headers == count
        client.send(Basic.Nack(delivered.tag, requeue=True))
    check(sent)


def test_a_get_of_a_returned_message_with_its_count(client: AmqpClient, sent: Sent) -> None:
    client.declare("q", arguments={"x-queue-type": "quorum"})
    client.publish(BODY, "q")
    client.expect_confirmed()
    for count in (None, {"x-delivery-count": 1}):
        message = client.get("q", no_ack=False)
        assert message is not None
        assert message.body == BODY
        assert message.properties.headers == count
        client.send(Basic.Nack(message.tag, requeue=True))
    check(sent)


def test_a_browsed_message_with_its_state(
    server: ThreadedServer, client: AmqpClient, sent: Sent
) -> None:
    client.declare("q")
    client.publish(BODY, "q")
    client.expect_confirmed()

    for _ in range(CONSUMERS):
        with connect(server.address) as browser:
            browser.open_channel()
            browser.consume("q", prefetch=1, arguments={"x-browse": True})
            message = browser.expect_delivery()
        assert message.body == BODY
        assert message.properties.headers == {"x-browse-state": "ready", "x-stream-offset": 0}
    check(sent)


def test_a_message_reaches_its_queues_if_its_exchange_is_deleted_while_it_is_copied(
    server: ThreadedServer, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there when the message was routed: a confirm must not stand for nothing."""
    is_copying, is_deleted = threading.Event(), threading.Event()

    def held(front: bytes, body: memoryview) -> Steps[bytes]:
        is_copying.set()
        while not is_deleted.is_set():
            yield
        return (yield from with_body(front, body))

    client.declare("q")
    client.call(Exchange.Declare(exchange="x", exchange_type="direct"), Exchange.DeclareOk)
    client.call(Queue.Bind(queue="q", exchange="x", routing_key="k"), Queue.BindOk)
    monkeypatch.setattr(message_targets, "with_body", held)
    client.call(Confirm.Select(), Confirm.SelectOk)
    properties = Basic.Properties(delivery_mode=2, headers={"BCC": ["none"]})
    client.publish(bytes(2 * LARGE_BYTES), "k", exchange="x", properties=properties)
    assert is_copying.wait(HANG_SECONDS)
    with connect(server.address) as other:
        other.open_channel()
        other.call(Exchange.Delete(exchange="x"), Exchange.DeleteOk)
        is_deleted.set()
        client.expect_confirmed()
        assert other.ready_count("q") == 1


@pytest.mark.parametrize("lingers", [True, False])
def test_a_client_that_closes_at_once_gets_all_frames_that_come_before_the_answer(
    server: ThreadedServer, client: AmqpClient, lingers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not lingers:
        monkeypatch.setattr(Lingering, "admit", lambda *_: False)
    client.declare("q")
    body = BODY * 4
    client.publish(body, "q", properties=PERSISTENT)
    client.expect_confirmed()
    with connect(server.address, frame_max=4096) as hasty:
        hasty.open_channel()
        get = frame.marshal(Basic.Get(queue="q", no_ack=True), 1)
        close = frame.marshal(Connection.Close(200, "", 0, 0), 0)
        hasty.send_raw(get + close)

        hasty.expect(Basic.GetOk)
        _, header = hasty.receive()
        assert isinstance(header, ContentHeader)
        received = bytearray()
        while len(received) < len(body):
            _, value = hasty.receive()
            assert isinstance(value, ContentBody)
            received += value.value
        assert received == body
        hasty.expect(Connection.CloseOk, 0)
        assert hasty.socket.recv(1) == b""


def test_others_are_served_between_two_parts_of_a_large_delivery(
    server: ThreadedServer, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = server.server.broker.turn
    turn_count = 0
    parts: list[int] = []
    take = LargeFrames.take

    def note_take(self: LargeFrames, bytes_max: int) -> list[bytes | memoryview]:
        parts.append(turn_count)
        return take(self, bytes_max)

    class Other:
        """There is always something to do for others."""

        def run_turn(self) -> None:
            nonlocal turn_count
            turn_count += 1
            if len(parts) < 8:
                turn.mark(self)

    client.declare("q")
    client.publish(BODY * 4, "q", properties=PERSISTENT)
    client.expect_confirmed()
    monkeypatch.setattr(LargeFrames, "take", note_take)
    server.call(lambda: turn.mark(Other()))
    message = client.get("q")

    assert message is not None
    assert message.body == BODY * 4
    assert len(parts) >= 8
    # One when the socket has room, and one in the turn of the loop.
    assert max(Counter(parts).values()) <= 3
