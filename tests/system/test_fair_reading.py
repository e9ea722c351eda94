"""The server reads a client that sends at full speed once, and then the other clients."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from pamqp.commands import Basic, Confirm

from amqp_server.base.config import Limits
from amqp_server.broker.storing import group_commit
from amqp_server.broker.storing.group_commit import WaitingWrites
from amqp_server.broker.turn import Turn
from amqp_server.connections.client_connection import ClientConnection
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


def test_a_lone_message_waits_for_nobody_and_those_of_a_busy_queue_wait_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_busy = True
    run_turn = WaitingWrites.run_turn

    def run_busy(self: WaitingWrites) -> None:
        # Somebody publishes between any two turns, until the server is calm.
        if is_busy:
            self.arrival_count += 1
        run_turn(self)

    monkeypatch.setattr(WaitingWrites, "run_turn", run_busy)
    monkeypatch.setattr(group_commit, "GROWTH_SECONDS_MAX", 10.0)
    with two_clients(tmp_path / "data", flush_interval_seconds=10.0) as (server, sender, other):
        for client in (sender, other):
            client.call(Confirm.Select(), Confirm.SelectOk)
        for queue in ("orders", "invoices"):
            sender.declare(queue)
        octets = sender.publish_octets(Basic.Publish(0, "", "orders"), b".", PERSISTENT)
        sender.send_raw(octets * 2)
        assert sender.expect(Basic.Ack).delivery_tag == 2
        orders = next(each for each in server.server.broker.queues() if each.name == "orders")
        sender.send_raw(octets)
        server.wait_until(lambda: orders.store.end_offset == 3)

        for tag in (1, 2):
            other.publish(b"alone", "invoices", properties=PERSISTENT)
            assert other.expect(Basic.Ack).delivery_tag == tag
        assert orders.store.written_end == 2, "it waited for nothing"

        is_busy = False
        assert sender.expect(Basic.Ack).delivery_tag == 3
