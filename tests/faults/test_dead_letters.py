"""Dead letters whose target queue cannot be written wait, and are in at least one queue."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.broker.queue import Queue as BrokerQueue
from amqp_server.control.queues import queue_stats
from tests.crash.full_disk import FullDisk
from tests.faults.inline_server import InlineClient, InlineServer

pytestmark = pytest.mark.crash

RETRIES_SECONDS = 30.0
"""Longer than a failed log, and a letter, wait for another try."""


class HalfBrokenDisk(FullDisk):
    """Is full in one place, and broken for good in another.

    Attributes:
        broken: Writes to files with this in their path fail; None is none.
    """

    broken: str | None = None

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        """Write, where the disk is sound."""
        if self.broken is not None and self.broken in str(self._paths[descriptor]):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().pwritev(descriptor, buffers, position, sync)


@pytest.fixture
def disk(tmp_path: Path) -> HalfBrokenDisk:
    """Return the file system of a data directory; the directory is there."""
    root = tmp_path / "data"
    root.mkdir()
    return HalfBrokenDisk(root)


def serve(disk: FullDisk) -> InlineServer:
    """Return a server on a disk."""
    return InlineServer(disk.root, disk)


def connect(server: InlineServer) -> InlineClient:
    """Connect, and declare `from`, whose letters go to `a` and `b`."""
    client = server.connect()
    client.call(Exchange.Declare(exchange="both", exchange_type="fanout", durable=True))
    for name in ("a", "b"):
        client.call(Queue.Declare(queue=name, durable=True))
        client.call(Queue.Bind(queue=name, exchange="both", routing_key=""))
    arguments: Any = {"x-dead-letter-exchange": "both"}
    client.call(Queue.Declare(queue="from", durable=True, arguments=arguments))
    return client


def reject(server: InlineServer, client: InlineClient, count: int) -> None:
    """Publish messages to `from`, and reject them."""
    for number in range(count):
        client.publish(b"%d" % number, "from")
    server.settle()
    for _ in range(count):
        got = client.get("from")
        assert got is not None
        client.send(Basic.Reject(got[0], requeue=False))
    server.settle()


def queue_of(server: InlineServer, name: str) -> BrokerQueue:
    """Return a queue of a server."""
    return server.server.broker.vhosts["/"].queues[name]


def counts(server: InlineServer, name: str) -> tuple[int, int, int]:
    """Return how many messages of a queue are ready, unacked and leaving, as operators see it."""
    stats = queue_stats(server.server.checkpointer, queue_of(server, name))
    return stats["ready"], stats["unacked"], stats["leaving"]


def let_try_again(server: InlineServer) -> None:
    """Let the server try all that has failed once more, and once more."""
    for _ in range(3):
        server.loop.pass_time(RETRIES_SECONDS)
        # A timer that is due is no work yet: the loop has to look.
        server.loop.call_soon(lambda: None)
        server.settle()


def bodies(client: InlineClient, queue: str) -> list[bytes]:
    """Take all that is ready in a queue."""
    found = []
    while (got := client.get(queue, no_ack=True)) is not None:
        found.append(got[2])
    return found


def test_dead_letters_for_a_full_queue_arrive_once_and_in_order_when_it_has_room(
    disk: HalfBrokenDisk,
) -> None:
    with serve(disk) as server:
        client = connect(server)
        disk.full = "/a/"
        reject(server, client, 20)
        assert queue_of(server, "a").store.is_failed
        assert queue_of(server, "from").settlement.ack_floor == 0
        let_try_again(server)
        assert queue_of(server, "from").settlement.ack_floor == 0
        # What is on its way is ready nowhere; it counts in the queue that it leaves.
        assert counts(server, "from") == (0, 0, 20)
        disk.full = None
        let_try_again(server)
        assert queue_of(server, "from").settlement.ack_floor == 20
        assert counts(server, "from") == (0, 0, 0)
        letters = [b"%d" % number for number in range(20)]
        assert bodies(client, "a") == letters
        assert bodies(client, "b") == letters


@pytest.mark.parametrize("full_first", [True, False])
def test_a_dead_letter_that_one_of_its_queues_cannot_take_stays_in_its_queue(
    disk: HalfBrokenDisk, full_first: bool
) -> None:
    """The other queue had it in memory only when the first one refused it."""
    full, broken = ("a", "b") if full_first else ("b", "a")
    with serve(disk) as server:
        client = connect(server)
        disk.full, disk.broken = f"/{full}/", f"/{broken}/"
        reject(server, client, 1)
        disk.full = None
        let_try_again(server)
        assert queue_of(server, full).is_synced
        assert queue_of(server, full).ready_count == 1
        assert queue_of(server, "from").settlement.ack_floor == 0
        disk.fail_at = 0
        assert not server.stop()
    disk.end_process()
    with serve(FullDisk(disk.root)) as server:
        client = server.connect()
        # Twice, perhaps: what was refused may be in the log all the same.
        assert set(bodies(client, full)) == {b"0"}
        assert bodies(client, "from") == [b"0"]
