"""A stream shows and confirms a message when it is on the disk."""

from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel

from tests.amqp_client import connect
from tests.conformance.streams import offset_of
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

STREAM: dict[str, Any] = {"x-queue-type": "stream"}
TRANSIENT = Basic.Properties(delivery_mode=1)


@pytest.mark.parametrize("durability", ["fsync", "write", "none"])
def test_a_stream_neither_confirms_nor_delivers_a_message_before_it_is_on_the_disk(
    tmp_path: Path, durability: str
) -> None:
    filesystem = FaultyFileSystem(tmp_path)
    with (
        ThreadedServer(tmp_path, filesystem, offset_checkpoint_interval_seconds=0) as server,
        connect(server.address) as client,
        connect(server.address) as reader,
    ):
        client.open_channel(confirms=True)
        client.declare("s", arguments=STREAM | {"x-durability": durability})
        queue = server.server.broker.vhosts["/"].queues["s"]
        reader.open_channel()
        reader.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})
        filesystem.sync_gate.clear()
        client.publish(b"0", "s", properties=TRANSIENT)
        if durability == "fsync":
            assert filesystem.sync_waiting.wait(HANG_SECONDS)
            client.send(Channel.Flow(active=True))
            client.expect(Channel.FlowOk)
        else:
            client.expect_confirmed()
        assert reader.ready_count("s") == 0
        filesystem.sync_gate.set()
        if durability == "fsync":
            client.expect_confirmed()
        else:
            server.wait_until(lambda: queue.store.written_end == 1)
            server.run(server.server.checkpointer.write_now)
        message = reader.expect_delivery()
        assert (message.body, offset_of(message)) == (b"0", 0)
        server.wait_until(lambda: queue.store.recovery_point == 1)
