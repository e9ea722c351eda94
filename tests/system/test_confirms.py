"""Publisher confirms over a real socket while a test holds the disk's syncs."""

from pathlib import Path

from pamqp.commands import Basic

from tests.amqp_client import PERSISTENT, connect
from tests.faults.faulty_filesystem import FaultyFileSystem
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer


def test_a_publisher_that_pauses_gets_the_confirms_of_all_its_flushes(tmp_path: Path) -> None:
    """A channel used to be forgotten after the first of two flushes that it waited for."""
    filesystem = FaultyFileSystem(tmp_path)
    with (
        ThreadedServer(tmp_path, filesystem) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("orders", durable=True)
        filesystem.sync_gate.clear()
        client.publish(b"in the first flush", "orders", properties=PERSISTENT)
        assert filesystem.sync_waiting.wait(HANG_SECONDS)
        client.publish(b"in the second", "orders", properties=PERSISTENT)
        queue = server.server.broker.vhosts["/"].queues["orders"]
        server.wait_until(lambda: queue.store.end_offset == 2)

        filesystem.sync_gate.set()

        answered = 0
        while answered < 2:
            answered = client.expect(Basic.Ack).delivery_tag or 0
