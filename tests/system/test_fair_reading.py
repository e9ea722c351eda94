"""The server reads a client that sends at full speed once, and then the other clients."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from pamqp.commands import Basic

from amqp_server.broker.turn import Turn
from amqp_server.client_connection import ClientConnection
from amqp_server.config import Limits
from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer

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
