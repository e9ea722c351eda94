"""Clients share the disk: one with one queue does not wait for one with many."""

import threading
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.broker.turn import TaskQueue
from appendlog import FileSystem
from appendlog.flushing.flusher import PARALLEL_MAX, Flusher
from appendlog.flushing.requests import FlushRequest, Request
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

QUEUES = 3 * PARALLEL_MAX
RING_BYTES = 64 * 1024


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
            assert self.may_sync.wait(HANG_SECONDS)
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
            assert files.stuck.acquire(timeout=HANG_SECONDS)
        for number in range(5):
            lone.publish(b"%d" % number, "lone")
            lone.expect_confirmed()

        files.may_sync.set()
        many.expect_confirmed()
        assert [many.ready_count(f"many-{number}") for number in range(QUEUES)] == [1] * QUEUES
        assert lone.ready_count("lone") == 5


@pytest.fixture
def charged_clients(monkeypatch: pytest.MonkeyPatch) -> list[Hashable]:
    """On whose behalf each append was submitted, in order."""
    noted: list[Hashable] = []
    submit = Flusher.submit

    def note(self: Flusher, request: Request, charged_client: Hashable = None) -> None:
        if isinstance(request, FlushRequest):
            noted.append(charged_client)
        submit(self, request, charged_client)

    monkeypatch.setattr(Flusher, "submit", note)
    return noted


def task_queue_of(server: ThreadedServer, client: AmqpClient) -> TaskQueue:
    """Return the task queue of a client, which is the only one that publishes in its connection."""
    port = client.socket.getsockname()[1]
    (task_queue,) = [
        each._session.task_queue
        for each in server.connections
        if each._session is not None and f":{port} " in each.name
    ]
    return task_queue


def test_the_publisher_pays_for_a_spill_that_a_timer_begins(
    tmp_path: Path, charged_clients: list[Hashable]
) -> None:
    """It waits for its consumers first; then no client's task runs."""
    with (
        ThreadedServer(tmp_path / "data", ring_bytes=RING_BYTES) as server,
        connect(server.address) as publisher,
        connect(server.address) as consumer,
    ):
        publisher.open_channel()
        publisher.declare("q", durable=False)
        consumer.open_channel()
        consumer.call(Basic.Consume(queue="q"), Basic.ConsumeOk)
        publisher.publish(bytes(RING_BYTES), "q")
        server.wait_until(lambda: len(charged_clients) == 1)

        assert charged_clients == [task_queue_of(server, publisher)]


def test_the_publisher_pays_for_what_memory_relief_writes(
    tmp_path: Path, charged_clients: list[Hashable]
) -> None:
    with (
        ThreadedServer(tmp_path / "data") as server,
        connect(server.address) as publisher,
    ):
        publisher.open_channel(confirms=True)
        publisher.declare("q", durable=False)
        publisher.publish(b"kept in memory", "q")
        publisher.expect_confirmed()
        assert charged_clients == []
        server.call(server.server.broker.storage.release_memory)
        server.wait_until(lambda: len(charged_clients) == 1)

        assert charged_clients == [task_queue_of(server, publisher)]


def test_the_publisher_pays_for_a_write_that_an_answer_of_the_disk_begins(
    tmp_path: Path, charged_clients: list[Hashable]
) -> None:
    """No confirm waits for it, so the queue's next write waits in no client's task queue."""
    files = SlowLogs()
    with (
        ThreadedServer(tmp_path / "data", files) as server,
        connect(server.address) as publisher,
    ):
        publisher.open_channel()
        publisher.declare("many-0")
        for number in range(2):
            publisher.publish(b"%d" % number, "many-0", properties=PERSISTENT)
            assert publisher.ready_count("many-0") == number + 1
            if not number:
                assert files.stuck.acquire(timeout=HANG_SECONDS)
        files.may_sync.set()
        server.wait_until(lambda: len(charged_clients) == 2)

        assert charged_clients == [task_queue_of(server, publisher)] * 2
