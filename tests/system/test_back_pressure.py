"""TCP alone slows a publisher that outruns the disk; other clients are not delayed."""

import threading
from collections.abc import Sequence
from pathlib import Path

from pamqp.commands import Basic

from amqp_server.broker.queue import Queue
from appendlog.files.filesystem import FileSystem
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

RING_SLOTS = 1024
BODY = b"." * 1000


class HeldDisk(FileSystem):
    """A disk whose writes take as long as it is held."""

    def __init__(self) -> None:
        self.is_free = threading.Event()
        self.is_free.set()

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write when the test releases the disk."""
        assert self.is_free.wait(HANG_SECONDS)
        return super().pwritev(descriptor, buffers, position, sync)


def test_the_broker_does_not_read_a_publisher_while_the_disk_does_not_write(tmp_path: Path) -> None:
    disk = HeldDisk()
    with (
        ThreadedServer(
            tmp_path / "data", disk, ring_size=RING_SLOTS, offset_checkpoint_interval_seconds=0
        ) as server,
        connect(server.address) as publisher,
        connect(server.address) as witness,
    ):
        publisher.open_channel()
        publisher.declare("heap")
        witness.open_channel(confirms=True)
        witness.declare("witness", durable=False)
        queue = server.server.broker.vhosts["/"].queues["heap"]
        octets = publisher.publish_octets(Basic.Publish(0, "", "heap"), BODY, PERSISTENT)
        disk.is_free.clear()
        try:
            rest, sent = send_until_the_server_does_not_read(server, queue, publisher, octets)
            store = queue.store
            read_bytes_max = server.server.config.limits.read_buffer_bytes
            held_max = RING_SLOTS + read_bytes_max // len(BODY)
            assert RING_SLOTS <= store.end_offset - store.written_end <= held_max < sent
            for _ in range(10):
                witness.publish(b"flat", "witness")
                witness.expect(Basic.Ack)
                message = witness.get("witness")
                assert message is not None
                assert message.body == b"flat"
        finally:
            disk.is_free.set()
        publisher.send_raw(rest)
        server.wait_until(lambda: len(queue.ready) == sent)


def send_until_the_server_does_not_read(
    server: ThreadedServer, queue: Queue, client: AmqpClient, octets: bytes
) -> tuple[bytes, int]:
    """Publish until the server waits for the queue and the sockets are full.

    Returns:
        What is left of the last publish, and how many there are with that one.
    """
    client.socket.setblocking(False)
    sent_bytes = 0
    while True:
        try:
            sent_bytes += client.socket.send(octets[sent_bytes % len(octets) :])
        except BlockingIOError:
            if server.call(lambda: queue.store.is_stalled):
                break
    client.socket.settimeout(HANG_SECONDS)
    return octets[sent_bytes % len(octets) :], sent_bytes // len(octets) + 1
