"""What a client sends in pieces is acknowledged at once: it may wait with the next piece."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import body, commands, frame, header, heartbeat

from amqp_server.connections.quick_ack import acknowledge_now
from tests.amqp_client import AmqpClient, connect
from tests.cutting import connection_of
from tests.threaded_server import ThreadedServer

QUICK_ACK = getattr(socket, "TCP_QUICKACK", None)
pytestmark = pytest.mark.skipif(QUICK_ACK is None, reason="the system has no TCP_QUICKACK")

BODY = b"0123456789"
PIECES = [
    frame.marshal(commands.Basic.Publish(routing_key="q"), 1),
    frame.marshal(header.ContentHeader(0, len(BODY), commands.Basic.Properties()), 1),
    frame.marshal(body.ContentBody(BODY), 1),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path) as server:
        yield server


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[AmqpClient]:
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        yield client


def acknowledges_at_once(server: ThreadedServer, client: AmqpClient, octets: bytes) -> bool:
    """Send octets; return what the kernel does about the acknowledgement once they are handled."""

    def received() -> int:
        return connection_of(server, client).octets.recv_oct

    def mode() -> int:
        transport = connection_of(server, client)._transport
        assert transport is not None
        descriptor = transport.get_extra_info("socket").fileno()
        borrowed = socket.socket(fileno=descriptor)
        try:
            return borrowed.getsockopt(socket.IPPROTO_TCP, QUICK_ACK or 0)
        finally:
            borrowed.detach()

    before = server.call(received)
    client.socket.sendall(octets)
    server.wait_until(lambda: received() == before + len(octets))
    return server.call(mode) == 1


@pytest.mark.parametrize("cuts", [[1], [2], [1, 2]], ids=str)
def test_a_message_in_pieces_is_acknowledged_at_once(
    server: ThreadedServer, client: AmqpClient, cuts: list[int]
) -> None:
    pieces = [b"".join(PIECES[low:high]) for low, high in zip([0, *cuts], [*cuts, 3], strict=True)]
    for piece in pieces[:-1]:
        assert acknowledges_at_once(server, client, piece)
    client.socket.sendall(pieces[-1])
    client.expect(commands.Basic.Ack)
    message = client.get("q")
    assert message is not None
    assert message.body == BODY


def test_a_frame_in_pieces_is_acknowledged_at_once(
    server: ThreadedServer, client: AmqpClient
) -> None:
    whole = b"".join(PIECES)
    assert acknowledges_at_once(server, client, whole[:3])
    assert acknowledges_at_once(server, client, whole[3:-1])
    client.socket.sendall(whole[-1:])
    client.expect(commands.Basic.Ack)


def test_a_whole_message_is_acknowledged_with_its_confirm(
    server: ThreadedServer, client: AmqpClient
) -> None:
    client.socket.sendall(b"".join(PIECES))
    client.expect(commands.Basic.Ack)
    # A heartbeat has no answer.
    assert not acknowledges_at_once(server, client, frame.marshal(heartbeat.Heartbeat(), 0))


async def test_what_is_no_socket_of_tcp_is_left_alone() -> None:
    ours, peers = socket.socketpair()
    with peers:
        _, writer = await asyncio.open_connection(sock=ours)
        acknowledge_now(writer.transport)
        writer.write(b"still open")
        await writer.drain()
        assert peers.recv(100) == b"still open"
        writer.close()
        acknowledge_now(writer.transport)
        await writer.wait_closed()
