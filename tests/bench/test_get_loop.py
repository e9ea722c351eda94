"""basic.get in a loop: a message that is not the next one is noticed."""

import pytest

from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.errors import BrokenRhythmError, UnexpectedFrameError
from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL
from bench.rows.get_loop import GetClient, GetOrder
from tests.servers import RunningServer

BLOCK_MESSAGES = 10


def test_a_get_that_skips_a_message_is_noticed(server: RunningServer) -> None:
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    order = GetOrder(url, "q", BLOCK_MESSAGES, seconds=5, is_acknowledged=True)
    with Connection(url, PUBLISH_CHANNEL) as filling, Connection(url, 7) as getting:
        filling.declare_queue("q", durable=False)
        block = PublishBlock(PUBLISH_CHANNEL, "q", body_bytes=128, block_messages=BLOCK_MESSAGES)
        filling.send(block.encode(0, 0) + block.encode(2, 0))
        assert filling.count_ready("q") == 2 * BLOCK_MESSAGES

        with pytest.raises(BrokenRhythmError, match="message 20"):
            GetClient(getting, order).run()


def test_a_get_from_an_empty_queue_is_noticed(server: RunningServer) -> None:
    url = BrokerUrl(*server.address, "guest", "guest", "/")
    order = GetOrder(url, "q", BLOCK_MESSAGES, seconds=5, is_acknowledged=False)
    with Connection(url, 7) as connection:
        connection.declare_queue("q", durable=False)
        with pytest.raises(UnexpectedFrameError, match=r"get-ok"):
            GetClient(connection, order).run()
