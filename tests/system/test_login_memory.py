"""What a client sends before its login costs the server little memory for a short time."""

from functools import partial
from pathlib import Path

from pamqp.commands import Connection

from amqp_server.base.limits import Limits
from amqp_server.connections.client_connection import LARGE_REST_BYTES, ClientConnection
from amqp_server.connections.session.client_session import ClientSession
from amqp_server.protocol.client_properties import KEPT_BYTES_MAX, VALUE_BYTES
from amqp_server.protocol.methods import ConnectionStartOk
from tests.amqp_client import PROTOCOL_HEADER, AmqpClient, connect, frame_octets
from tests.threaded_server import ThreadedServer

MANY = {f"k{number}": number for number in range(2_000)}
LONG = "x" * 5_000


def sessions(server: ThreadedServer) -> list[ClientSession]:
    found = [each._session for each in server.connections]
    assert all(found)
    return [each for each in found if each is not None]


def test_the_properties_of_a_client_take_bounded_memory(tmp_path: Path) -> None:
    properties = {"copyright": LONG, **MANY, "team": "orders", "product": "pika"}
    with (
        ThreadedServer(tmp_path) as server,
        connect(server.address, properties=properties) as client,
    ):
        client.open_channel()
        kept = server.call(lambda: sessions(server)[0]._machine.client_properties)

        assert kept["product"].value == b"pika"
        assert isinstance(kept["capabilities"].value, dict)
        assert {"consumer_cancel_notify"} < set(kept["capabilities"].value)
        assert kept["copyright"].value == LONG.encode()
        assert len(kept) < KEPT_BYTES_MAX // VALUE_BYTES


def test_the_broker_keeps_nothing_of_a_refused_login(tmp_path: Path) -> None:
    slow = Limits(refused_login_seconds=60.0)
    with ThreadedServer(tmp_path, limits=slow) as server, AmqpClient(server.address) as client:
        client.start(user="nobody", capabilities={}, properties={"product": "p", **MANY})
        server.wait_until(
            lambda: [each._machine.state.name for each in sessions(server)] == ["CLOSING"]
        )

        assert server.call(lambda: sessions(server)[0]._machine.client_properties) == {}
        (session,), (connection,) = sessions(server), server.connections
        assert not session._input.events
        assert session._last_request == (0, ConnectionStartOk.identity)
        assert (connection.rest, connection.unsent_bytes) == (b"", 0)


def test_a_login_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, AmqpClient(server.address) as client:
        client.send_raw(PROTOCOL_HEADER)
        client.expect(Connection.Start, 0)
        client.send_raw(frame_octets(1, 0, bytes(Limits().login_bytes_max + 1000))[:20])
        server.wait_until(
            lambda: [each._machine.state.name for each in sessions(server)] == ["CLOSING"]
        )


def has_left(connection: ClientConnection, rest: int) -> bool:
    return len(connection.rest) == rest


def test_of_a_client_that_is_not_logged_in_little_is_read_at_a_time(tmp_path: Path) -> None:
    limits = Limits()
    with ThreadedServer(tmp_path) as server, AmqpClient(server.address) as client:
        client.send_raw(PROTOCOL_HEADER)
        client.expect(Connection.Start, 0)
        (connection,) = server.connections

        def room() -> int:
            return len(connection.rest) + len(connection.get_buffer(-1))

        assert server.call(room) == limits.login_bytes_max + 8
        # Half a frame: it counts.
        client.send_raw(frame_octets(1, 0, bytes(1000))[:500])
        server.wait_until(lambda: len(connection.rest) == 500)
        assert server.call(room) == limits.login_bytes_max + 8
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        (connection,) = server.connections
        assert server.call(room) == limits.read_buffer_bytes
        # More at a time while large frames arrive; what is left over is the beginning of one.
        for rest, read_bytes_max in (
            (LARGE_REST_BYTES - 1, limits.read_buffer_bytes),
            (LARGE_REST_BYTES, limits.large_read_bytes),
        ):
            octets = frame_octets(3, 1, bytes(LARGE_REST_BYTES))
            client.send_raw(octets[len(connection.rest) : rest])
            server.wait_until(partial(has_left, connection, rest))
            assert server.call(room) == rest + read_bytes_max
