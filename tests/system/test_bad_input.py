"""A client that sends wrong octets disturbs no other one, with compiled and interpreted kernels.

tests/conformance/test_wrong_octets.py says what the client gets.
"""

import random
import socket

import pytest
from pamqp import frame, header
from pamqp.commands import Basic, Channel, Confirm, Queue

from tests.amqp_client import (
    PERSISTENT,
    AmqpClient,
    ConnectionLostError,
    connect,
)
from tests.conformance.wrong_octets import (
    ALL_FATAL,
    SOFT,
    expect_channel_closed,
    expect_closed,
    method,
)
from tests.servers import RunningServer

pytestmark = pytest.mark.usefixtures("witness")


def test_no_wrong_octets_disturb_another_connection(shared_server: RunningServer) -> None:
    for wrong in ALL_FATAL.values():
        with connect(shared_server.address) as client:
            client.open_channel()
            expect_closed(client, wrong)
    for wrong in SOFT.values():
        with connect(shared_server.address) as client:
            client.open_channel()
            expect_channel_closed(client, wrong)
            client.send(Channel.CloseOk())
            client.close()


def test_a_frame_may_come_octet_by_octet(shared_server: RunningServer) -> None:
    with connect(shared_server.address) as client:
        client.open_channel(confirms=True)
        client.declare("slowly", durable=False)
        for octet in client.publish_octets(Basic.Publish(0, "", "slowly"), b"drop", PERSISTENT):
            client.send_raw(bytes([octet]))
        client.expect(Basic.Ack)
        message = client.get("slowly")
        assert message is not None
        assert message.body == b"drop"


def test_a_truncated_frame_at_the_end_is_forgotten(shared_server: RunningServer) -> None:
    with connect(shared_server.address) as client:
        client.open_channel()
        client.declare("truncated", durable=False)
        publish = client.publish_octets(Basic.Publish(0, "", "truncated"), b"x" * 100, PERSISTENT)
        client.send_raw(publish + publish[:-1])
        client.socket.shutdown(socket.SHUT_WR)
        client.expect_end()
    with connect(shared_server.address) as client:
        client.open_channel()
        assert client.ready_count("truncated") == 1


def test_two_mistakes_in_one_packet_are_answered_once(shared_server: RunningServer) -> None:
    with connect(shared_server.address) as client:
        client.send_raw(method(99, 1, channel=0) + method(99, 1, channel=0) + b"\xff" * 20)
        client.expect_connection_close(540)


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_of_a_valid_stream_never_cause_an_internal_error(
    shared_server: RunningServer, seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        with connect(shared_server.address) as client:
            client.open_channel()
            stream = bytearray(_valid_stream(client))
            for _ in range(chance.randint(1, 5)):
                _mutate(stream, chance)
            _send_and_read_to_the_end(client, bytes(stream))


def _valid_stream(client: AmqpClient) -> bytes:
    properties = Basic.Properties(headers={"a": 1, "b": {"c": [1, "x"]}}, delivery_mode=2)
    frames = [
        frame.marshal(Queue.Declare(queue="mutated", arguments={"x-ours": {"a": [True]}}), 1),
        frame.marshal(Confirm.Select(), 1),
        client.publish_octets(Basic.Publish(0, "", "mutated"), b"one", properties),
        client.publish_octets(Basic.Publish(0, "", "mutated"), b"two", properties) * 3,
        frame.marshal(Basic.Qos(prefetch_count=2), 1),
        frame.marshal(Basic.Consume(queue="mutated", consumer_tag="c"), 1),
        frame.marshal(Basic.Ack(1), 1) + frame.marshal(Basic.Nack(2), 1),
        frame.marshal(Basic.Get(queue="mutated"), 1),
        frame.marshal(Basic.Cancel("c"), 1) + frame.marshal(Queue.Purge(queue="mutated"), 1),
        frame.marshal(header.ContentHeader(0, 0), 1),
    ]
    return b"".join(frames)


def _mutate(stream: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(stream))
    match chance.randrange(4):
        case 0:
            stream[at] = chance.randrange(256)
        case 1:
            stream[at] ^= 1 << chance.randrange(8)
        case 2:
            del stream[at : at + chance.randint(1, 8)]
        case _:
            stream[at:at] = chance.randbytes(chance.randint(1, 8))


def _send_and_read_to_the_end(client: AmqpClient, octets: bytes) -> None:
    """Send and take the answers; their names may be any octets, so nothing is decoded."""
    received = b""
    try:
        client.send_raw(octets)
        client.socket.shutdown(socket.SHUT_WR)
        while True:
            received += client.receive_raw()
    except TimeoutError:
        raise
    except (ConnectionLostError, OSError):
        internal_error = b"\x00\x0a\x00\x32" + (541).to_bytes(2, "big")
        assert internal_error not in received, f"after {octets.hex()}"
