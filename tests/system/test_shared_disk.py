"""Clients share the disk: one with one queue does not wait for one with many."""

import threading
from collections.abc import Sequence
from pathlib import Path

from pamqp.commands import Exchange, Queue

from appendlog import FileSystem
from appendlog.flushing.flusher import PARALLEL_MAX
from tests.amqp_client import connect
from tests.threaded_server import ThreadedServer

QUEUES = 3 * PARALLEL_MAX


class SlowLogs(FileSystem):
    """Synced writes of the logs of queues named `many-...` wait until the test lets them go on."""

    def __init__(self) -> None:
        self.may_sync = threading.Event()
        self.stuck = threading.Semaphore(0)
        self._slow: set[int] = set()

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        descriptor = super().open(path, flags, mode)
        if "logs" in path.parts and "many-" in str(path):
            self._slow.add(descriptor)
        else:
            self._slow.discard(descriptor)
        return descriptor

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        if sync and descriptor in self._slow:
            self.stuck.release()
            assert self.may_sync.wait(30)
        return super().pwritev(descriptor, buffers, position, sync)


def test_a_lone_durable_queue_is_confirmed_while_a_fanout_waits_for_the_disk(
    tmp_path: Path,
) -> None:
    files = SlowLogs()
    with (
        ThreadedServer(tmp_path / "data", files) as server,
        connect(server.address) as many,
        connect(server.address) as lone,
    ):
        for client in (many, lone):
            client.open_channel(confirms=True)
        many.call(Exchange.Declare(exchange="all", exchange_type="fanout"), Exchange.DeclareOk)
        for number in range(QUEUES):
            many.declare(f"many-{number}")
            many.call(Queue.Bind(queue=f"many-{number}", exchange="all"), Queue.BindOk)
        lone.declare("lone")

        many.publish(b"to all", "", "all")
        for _ in range(PARALLEL_MAX):
            assert files.stuck.acquire(timeout=30)
        for number in range(5):
            lone.publish(b"%d" % number, "lone")
            lone.expect_confirmed()

        files.may_sync.set()
        many.expect_confirmed()
        assert [many.ready_count(f"many-{number}") for number in range(QUEUES)] == [1] * QUEUES
        assert lone.ready_count("lone") == 5
