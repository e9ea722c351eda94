"""Messages in many frames arrive whole, in order and confirmed, or leave nothing behind."""

from pathlib import Path

import pytest
from pamqp.commands import Basic

from amqp_server.protocol.constants import ReplyCode
from tests.amqp_client import PERSISTENT, connect
from tests.threaded_server import ThreadedServer

FRAME_MAX = 4096
PIECE = FRAME_MAX - 8
MESSAGE_BYTES_MAX = 3 << 20
SIZES = (0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1, 1 << 20, MESSAGE_BYTES_MAX)


def body_of(size: int) -> bytes:
    """Return a body whose places all look different."""
    return b"".join(b"%08d" % at for at in range(0, size, 8))[:size]


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_bodies_around_the_frame_size_and_the_limit_arrive_in_order(
    tmp_path: Path, durable: bool
) -> None:
    with (
        ThreadedServer(tmp_path, max_message_bytes=MESSAGE_BYTES_MAX, ring_bytes=65_536) as server,
        connect(server.address, frame_max=FRAME_MAX) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("large", durable=durable)
        for size in SIZES:
            client.publish(body_of(size), "large")
        client.expect_confirmed()

        for size in SIZES:
            got = client.get("large")
            assert got is not None
            assert got.body == body_of(size)
        assert server.call(lambda: server.server.broker.assembly_budget.held_bytes) == 0


def test_a_body_above_the_limit_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, max_message_bytes=MESSAGE_BYTES_MAX) as server,
        connect(server.address, frame_max=FRAME_MAX) as client,
    ):
        client.open_channel()
        client.publish(body_of(MESSAGE_BYTES_MAX + 1), "large")

        client.expect_channel_close(ReplyCode.PRECONDITION_FAILED)
        assert server.call(lambda: server.server.broker.assembly_budget.held_bytes) == 0


def test_a_connection_lost_within_a_body_gives_its_bytes_back(tmp_path: Path) -> None:
    with ThreadedServer(tmp_path) as server, connect(server.address) as witness:
        budget = server.server.broker.assembly_budget
        witness.open_channel(confirms=True)
        witness.declare("large")
        with connect(server.address, frame_max=FRAME_MAX) as client:
            client.open_channel()
            method = Basic.Publish(0, "", "large")
            octets = client.publish_octets(method, body_of(1 << 20), PERSISTENT)
            client.send_raw(octets[:-1])
            server.wait_until(lambda: budget.held_bytes > (1 << 20) - FRAME_MAX)
        server.wait_until(lambda: budget.held_bytes == 0)

        witness.publish(b"next", "large")
        witness.expect_confirmed()
        assert witness.ready_count("large") == 1
