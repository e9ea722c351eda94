"""Groups of streams that have let go of messages whose files are still there."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pamqp.commands import Exchange
from pamqp.commands import Queue as QueueMethods

from amqp_server.broker.stream import Stream
from amqp_server.control import offsets
from amqp_server.control.protocol import ControlError, ErrorKind
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

HOUR_NS = 3_600 * 10**9
SHARDS = ("whole", "shortened")


def fill(client: AmqpClient) -> None:
    """Make two shards of which only the second one forgets what is old."""
    client.open_channel(confirms=True)
    spread = Exchange.Declare(exchange="spread", exchange_type="x-consistent-hash", durable=True)
    client.call(spread, Exchange.DeclareOk)
    asked = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1}
    client.declare("whole", arguments=asked)
    client.declare("shortened", arguments={**asked, "x-max-age": "1h"})
    for name in SHARDS:
        bind = QueueMethods.Bind(queue=name, exchange="spread", routing_key="1")
        client.call(bind, QueueMethods.BindOk)
        for _ in range(20):
            client.publish(bytes(10_000), name)
            client.expect_confirmed()


@pytest.mark.parametrize("command", [offsets.commit, offsets.seek])
def test_a_place_that_one_shard_has_let_go_of_changes_no_shard(
    tmp_path: Path, command: Callable[..., Awaitable[object]]
) -> None:
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
    ):
        fill(client)
        queues = server.server.broker.vhosts["/"].queues
        stream = queues["shortened"]
        assert isinstance(stream, Stream)
        server.call(lambda: stream.shorten(time.time_ns() + 2 * HOUR_NS))
        assert queues["shortened"].store.log.log_start_offset == 0
        assert queues["shortened"].settlement.ack_floor > 3
        parts = server.server.broker, server.server.checkpointer
        with pytest.raises(ControlError) as refused:
            server.run(lambda: command(*parts, "/", "", "spread", "g", "3", force=True))
        assert refused.value.kind is ErrorKind.OUT_OF_RANGE
        for name in SHARDS:
            groups = queues[name].groups
            assert groups is not None
            assert groups.names() == []
