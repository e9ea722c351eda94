"""Clients that do not read cost bounded memory and delay no other client."""

import asyncio
import socket
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Connection, Queue
from pamqp.heartbeat import Heartbeat

from amqp_server.connections.heartbeats import HeartbeatWheel
from amqp_server.testing.clock import TurnedClock
from tests.amqp_client import PERSISTENT, AmqpClient, connect, frame_octets
from tests.conftest import StartServer
from tests.system.conftest import WITNESS_QUEUE, publish_and_get
from tests.threaded_server import ThreadedServer

MIB = 1024 * 1024
GROWTH_BYTES_MAX = 50 * MIB
BODY = bytes(range(256)) * 40
ASKED = 15
UNHEARD_TURNS = 20
SENT_BYTES_MAX = 32 * MIB
"""More than the buffers of two sockets hold."""
TRANSIENT = Basic.Properties(delivery_mode=1)


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_memory_is_bounded_when_a_consumer_never_reads(
    start_server: StartServer, durable: bool
) -> None:
    server = start_server()
    with connect(server.address) as deaf, connect(server.address) as publisher:
        deaf.open_channel()
        deaf.declare("heap", durable=durable)
        deaf.send(Basic.Consume(queue="heap"))
        with connect(server.address) as witness:
            witness.open_channel(confirms=True)
            witness.declare(WITNESS_QUEUE)
            publish_and_get(witness)
            before = server.resident_bytes
            publisher.open_channel(confirms=True)
            batch = publisher.publish_octets(
                Basic.Publish(0, "", "heap"), BODY, PERSISTENT if durable else TRANSIENT
            )
            for _ in range(60):
                publisher.send_raw(batch * 200)
                publish_and_get(witness)
            expect_confirmed_up_to(publisher, 60 * 200)
            server.wait_for_memory(before + GROWTH_BYTES_MAX)
            assert witness.ready_count("heap") > 11_000


def expect_confirmed_up_to(client: AmqpClient, tag: int) -> None:
    """Return when the publish of this number is confirmed."""
    while client.expect(Basic.Ack).delivery_tag != tag:
        pass


def test_the_broker_does_not_read_a_client_that_does_not_read_its_replies(
    start_server: StartServer,
) -> None:
    server = start_server()
    with connect(server.address) as deaf, connect(server.address) as witness:
        witness.open_channel(confirms=True)
        witness.declare(WITNESS_QUEUE)
        publish_and_get(witness)
        before = server.resident_bytes
        deaf.open_channel()
        deaf.declare("asked")
        deaf.socket.setblocking(False)
        questions = frame.marshal(Queue.Declare(queue="asked", passive=True), 1) * 1000
        left = questions
        sent = unheard = 0
        # In a turn in which it serves another client it would read of this one, too.
        while unheard < UNHEARD_TURNS:
            try:
                count = deaf.socket.send(left)
                left = left[count:] or questions
                sent, unheard = sent + count, 0
            except BlockingIOError:
                publish_and_get(witness)
                unheard += 1
            assert sent < SENT_BYTES_MAX, "the server still reads"
        server.wait_for_memory(before + GROWTH_BYTES_MAX)


def test_a_client_that_does_not_read_and_makes_a_mistake_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amqp_server.connections.client_timeouts.DRAIN_SECONDS_MAX", 0.1)
    with (
        ThreadedServer(tmp_path / "data") as server,
        connect(server.address) as deaf,
        connect(server.address) as publisher,
    ):
        fill_write_buffer(server, deaf, publisher)
        deaf.send_raw(frame_octets(4, 1, b"no such frame type"))
        server.wait_until(lambda: len(server.server.connections) == 1)
        assert publisher.ready_count("heap") == 2_000


def fill_write_buffer(server: ThreadedServer, deaf: AmqpClient, publisher: AmqpClient) -> None:
    """Send a consumer more than its socket and the server's buffer hold."""
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.open_channel()
    deaf.declare("heap", durable=False)
    deaf.send(Basic.Consume(queue="heap"))
    publisher.open_channel(confirms=True)
    octets = publisher.publish_octets(Basic.Publish(0, "", "heap"), BODY, TRANSIENT)
    publisher.send_raw(octets * 2_000)
    expect_confirmed_up_to(publisher, 2_000)
    server.wait_until(lambda: not all(each.is_writable for each in server.connections))


def test_a_client_that_does_not_read_does_not_delay_a_clean_stop(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path / "data") as server,
        connect(server.address) as deaf,
        connect(server.address) as publisher,
    ):
        fill_write_buffer(server, deaf, publisher)
        # It returns, or fails: a server that waited for the deaf client would never end.
        server.stop()
        publisher.expect(Connection.Close, 0)


async def never(_wheel: HeartbeatWheel) -> None:
    """Let no second pass but those of the test."""
    await asyncio.get_running_loop().create_future()


def test_a_client_that_does_not_read_is_kept_only_with_heartbeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeartbeatWheel, "turn", never)
    with (
        ThreadedServer(tmp_path / "data") as server,
        connect(server.address, heartbeat_seconds=1) as silent,
        connect(server.address, heartbeat_seconds=1) as beating,
    ):
        seconds = 0
        while server.call(lambda: len(server.server.connections)) == 2:
            beating.send(Heartbeat(), 0)
            server.wait_until(lambda: any(each._has_received for each in server.connections))
            server.call(server.server.context.heartbeats.tick)
            seconds += 1
        silent.expect_end()
        assert seconds > 2
        beating.send(Channel.Open())
        while isinstance(value := beating.receive()[1], Heartbeat):
            pass
        assert isinstance(value, Channel.OpenOk)


def ask_for_much(server: ThreadedServer, deaf: AmqpClient, publisher: AmqpClient) -> None:
    """Ask in one small write for `ASKED` messages of 1 MiB, all in memory, and read none."""
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MIB // 4)
    publisher.open_channel(confirms=True)
    publisher.declare("large")
    for _ in range(ASKED):
        publisher.publish(bytes(MIB), "large")
    publisher.expect_confirmed()
    deaf.open_channel()
    deaf.send_raw(frame.marshal(Basic.Get(queue="large"), 1) * ASKED)
    server.wait_until(lambda: any(each.is_backlogged for each in server.connections))


def test_requests_in_one_write_are_not_all_answered_at_once(tmp_path: Path) -> None:
    """One read buffer holds 10,000 basic.get: their answers used to pile up whole."""
    with (
        ThreadedServer(tmp_path / "data") as server,
        connect(server.address) as deaf,
        connect(server.address) as publisher,
    ):
        ask_for_much(server, deaf, publisher)
        # Some megabytes fill the buffers of the sockets, the rest stays where it is.
        assert publisher.ready_count("large") > 3

        left = ASKED
        while left > 0:
            _, value = deaf.receive()
            left -= isinstance(value, Basic.GetOk)
        assert publisher.ready_count("large") == 0


def test_heartbeats_disconnect_a_client_that_hangs(tmp_path: Path) -> None:
    """It was not listened to, for its answers piled up, and so never counted as silent."""
    clock = TurnedClock()
    with (
        ThreadedServer(tmp_path / "data", clock=clock) as server,
        connect(server.address, heartbeat_seconds=1) as deaf,
        connect(server.address) as publisher,
    ):
        ask_for_much(server, deaf, publisher)
        clock.advance(seconds=3, heartbeats=True)
        assert len(server.server.connections) == 1
        assert publisher.ready_count("large") == ASKED
