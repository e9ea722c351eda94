"""The server reads a client that sends at full speed once, and then the other clients."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from pamqp.commands import Basic, Confirm

from amqp_server import server_context
from amqp_server.broker.turn import Line, Turn
from amqp_server.client_connection import ClientConnection
from amqp_server.config import Limits
from amqp_server.connections import Connection
from tests.amqp_client import PERSISTENT, connect
from tests.threaded_server import ThreadedServer, two_clients

READ_BYTES = 1024
PUBLISHES = 300


def test_other_clients_have_a_turn_between_two_full_reads_of_one_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    take, run = ClientConnection.buffer_updated, Turn._run
    is_sent = threading.Event()
    is_sent.set()

    def note_read(connection: ClientConnection, nbytes: int) -> None:
        # Held up until much is in its socket, the server finds more than one read there.
        is_sent.wait()
        events.append("full" if nbytes == READ_BYTES else "rest")
        take(connection, nbytes)

    def note_turn(turn: Turn) -> None:
        events.append("turn")
        run(turn)

    monkeypatch.setattr(ClientConnection, "buffer_updated", note_read)
    monkeypatch.setattr(Turn, "_run", note_turn)
    limits = Limits(read_buffer_bytes=READ_BYTES)
    with (
        ThreadedServer(tmp_path / "data", limits=limits) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("heap", durable=False)
        octets = client.publish_octets(
            Basic.Publish(0, "", "heap"), b"." * 100, Basic.Properties(delivery_mode=1)
        )
        is_sent.clear()
        client.send_raw(octets * PUBLISHES)
        is_sent.set()
        while client.expect(Basic.Ack).delivery_tag != PUBLISHES:
            pass
        assert client.ready_count("heap") == PUBLISHES
    assert events.count("full") > 10
    assert ("full", "full") not in pairwise(events)


def test_messages_wait_for_more_input_of_their_own_publisher_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[tuple[Connection, Line]] = []
    read_on = server_context._read_on
    monkeypatch.setattr(server_context, "_read_on", lambda *client: held.append(client))
    limits = Limits(read_buffer_bytes=READ_BYTES)
    with two_clients(tmp_path / "data", limits=limits, flush_interval_seconds=10.0) as (
        server,
        sender,
        other,
    ):
        for client in (sender, other):
            client.call(Confirm.Select(), Confirm.SelectOk)
        for queue in ("orders", "invoices"):
            sender.declare(queue)
        publish = Basic.Publish(0, "", "orders")
        first = sender.publish_octets(publish, b".", PERSISTENT)
        room = READ_BYTES - 2 * len(first) + 1
        octets = first + sender.publish_octets(publish, b"." * room, PERSISTENT)
        assert len(octets) == READ_BYTES
        sender.send_raw(octets)
        server.wait_until(lambda: bool(held))

        other.publish(b"alone", "invoices", properties=PERSISTENT)
        assert other.expect(Basic.Ack).delivery_tag == 1
        orders = next(each for each in server.server.broker.queues() if each.name == "orders")
        assert orders.store.written_end == 0, "they waited for nothing"
        # The write that one client waits for takes the messages of the other along.
        other.publish(b"shared", "orders", properties=PERSISTENT)
        assert other.expect(Basic.Ack).delivery_tag == 2
        assert sender.expect(Basic.Ack).delivery_tag == 2

        server.call(lambda: read_on(*held.pop()))
        sender.send_raw(octets)
        server.wait_until(lambda: bool(held))
        server.call(lambda: read_on(*held.pop()))
        assert sender.expect(Basic.Ack).delivery_tag == 4
