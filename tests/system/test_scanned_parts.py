"""What a client sends is scanned in parts: the rest stays octets until the events before it end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic, Connection, Queue
from pamqp.heartbeat import Heartbeat

from amqp_server.base import time_slice
from amqp_server.base.limits import Limits
from amqp_server.connections.session import session_input
from amqp_server.connections.session.client_session import ClientSession
from tests.amqp_client import PERSISTENT, PROTOCOL_HEADER, AmqpClient, connect
from tests.cutting import connection_of, read
from tests.threaded_server import ThreadedServer

PART_BYTES = 64
FRAME_BYTES_MIN = 8
MESSAGES = 100
BEAT = frame.marshal(Heartbeat(), 0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path) as server:
        yield server


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scan little at once, and make every slice one step long."""
    monkeypatch.setattr(session_input, "SCANNED_BYTES_MAX", PART_BYTES)
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)


def session_of(server: ThreadedServer, client: AmqpClient) -> ClientSession:
    session = connection_of(server, client)._session
    assert session is not None
    return session


def publishes(client: AmqpClient, bodies: list[bytes]) -> bytes:
    method = Basic.Publish(0, "", "q")
    return b"".join(client.publish_octets(method, body, PERSISTENT) for body in bodies)


def bodies_of_any_size() -> list[bytes]:
    """Return bodies that are shorter, and much longer, than a part."""
    return [b"%d " % number * (1 + number % 7 * 40) for number in range(MESSAGES)]


@pytest.mark.usefixtures("small_parts")
def test_parts_are_handled_in_order_wherever_they_are_cut(server: ThreadedServer) -> None:
    bodies = bodies_of_any_size()
    with connect(server.address) as client:
        client.open_channel()
        declare = frame.marshal(Queue.Declare(queue="q", passive=True), 1)
        client.declare("q")
        octets = publishes(client, bodies) + BEAT + declare
        server.call(lambda: read(server, client, octets[:-5]))
        server.call(lambda: read(server, client, octets[-5:]))

        assert client.expect(Queue.DeclareOk).message_count == MESSAGES
        messages = [client.get("q") for _ in bodies]
        assert [message.body for message in messages if message is not None] == bodies


@pytest.mark.usefixtures("small_parts")
def test_the_smallest_frames_are_no_more_events_than_a_part_has(
    server: ThreadedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[int] = []
    handle = ClientSession._handle_events

    def noted(session: ClientSession, *arguments: time_slice.TimeSlice | None) -> bool:
        is_cut = handle(session, *arguments)
        waiting.append(len(session._input.events))
        return is_cut

    with connect(server.address) as client:
        client.open_channel()
        monkeypatch.setattr(ClientSession, "_handle_events", noted)
        server.call(lambda: read(server, client, BEAT * 5_000))
        assert session_of(server, client)._input.is_paused
        client.declare("behind them")

    assert sum(waiting) > 5_000
    assert max(waiting) <= PART_BYTES // FRAME_BYTES_MIN


def test_what_was_read_when_the_turn_had_no_time_left_is_scanned_in_the_turn(
    server: ThreadedServer,
) -> None:
    """A hundred clients that send at once would be scanned before anyone else is served."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        octets = publishes(client, [b"1", b"2"])

        def read_late() -> tuple[int, int]:
            server.server.broker.turn._reading_seconds = 1.0
            read(server, client, octets[:-1])
            connection = connection_of(server, client)
            # It counts in the memory alarm.
            assert connection.held_bytes >= len(octets) - 1
            assert session_of(server, client)._input.is_paused
            return len(connection.rest), len(session_of(server, client)._input.events)

        assert server.call(read_late) == (len(octets) - 1, 0)
        server.call(lambda: read(server, client, octets[-1:]))
        while client.expect(Basic.Ack).delivery_tag != 2:
            pass
        assert client.ready_count("q") == 2


def test_what_a_lost_client_had_sent_is_handled_although_it_was_not_scanned(
    server: ThreadedServer,
) -> None:
    with connect(server.address) as client, connect(server.address) as other:
        client.open_channel()
        client.declare("q")
        octets = publishes(client, bodies_of_any_size())

        def read_and_lose() -> None:
            server.server.broker.turn._reading_seconds = 1.0
            connection = connection_of(server, client)
            read(server, client, octets)
            assert len(connection.rest) == len(octets)
            connection.abandon("test")

        server.call(read_and_lose)
        server.wait_until(lambda: len(server.connections) == 1)
        other.open_channel()
        assert other.ready_count("q") == MESSAGES


def test_a_client_that_reads_again_is_not_read_before_its_requests_are_answered(
    server: ThreadedServer,
) -> None:
    """More and more would wait unscanned, until nothing fits into the read buffer."""
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q")
        declare = frame.marshal(Queue.Declare(queue="q", passive=True), 1)

        def read_backlogged() -> None:
            connection = connection_of(server, client)
            connection.pause_writing()
            connection.pause_reading("unsent")
            read(server, client, declare)
            assert connection.rest == declare
            connection.resume_writing()
            assert connection._pauses == {"waiting"}

        server.call(read_backlogged)
        client.expect(Queue.DeclareOk)
        server.wait_until(lambda: not connection_of(server, client)._pauses)


@pytest.mark.parametrize("is_late", [False, True], ids=["scanned at once", "scanned late"])
@pytest.mark.usefixtures("small_parts")
def test_a_refused_login_drops_what_was_sent_behind_it(tmp_path: Path, is_late: bool) -> None:
    """Its close would be answered at once, without the delay that slows down guessing."""
    slow = Limits(refused_login_seconds=60.0)
    wrong = Connection.StartOk({}, "PLAIN", "\0nobody\0wrong", "en_US")
    close = Connection.Close(200, "", 0, 0)
    with ThreadedServer(tmp_path, limits=slow) as server, AmqpClient(server.address) as client:
        client.send_raw(PROTOCOL_HEADER)
        client.expect(Connection.Start, 0)

        def read_all() -> None:
            if is_late:
                server.server.broker.turn._reading_seconds = 1.0
            octets = frame.marshal(wrong, 0) + BEAT * 20 + frame.marshal(close, 0)
            read(server, client, octets)

        server.call(read_all)
        server.wait_until(lambda: session_of(server, client)._machine.state.name == "CLOSING")
        server.call(lambda: session_of(server, client).run_turn())

        session = session_of(server, client)
        assert session._machine.state.name == "CLOSING"
        assert session._input.is_scanned
        assert connection_of(server, client).rest == b""
