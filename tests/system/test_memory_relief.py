"""Rings that together hold too much are relieved one by one, at no client's cost.

Every slice is over after one step here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from pamqp.commands import Queue

from amqp_server.broker.queue import Queue as BrokerQueue
from amqp_server.broker.storing import memory_relief
from amqp_server.broker.storing.message_store import MessageStore
from amqp_server.broker.storing.window_reader import WindowReader
from amqp_server.broker.turn import TaskQueue
from appendlog import FileSystem, ReadResult
from appendlog.flushing.flusher import Flusher
from appendlog.flushing.requests import FlushRequest, Request
from tests.amqp_client import AmqpClient, connect
from tests.cutting import cut_everywhere
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

QUEUES: Final = 8
FILLING: Final = [bytes(16_000)] * 8
"""Messages of each queue; those of all queues are just within the pool."""
LAST: Final = bytes(50_000)
LARGE: Final = bytes(300_000)
"""Of one message, as many queues hold more than the pool."""

Arrived = Callable[[int, ReadResult | Exception], None]


@pytest.fixture(autouse=True)
def one_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_everywhere(monkeypatch)
    monkeypatch.setattr(memory_relief, "STEP_STORES", 1)


class HeldSpills(FileSystem):
    """A disk that writes nothing into the logs of transient queues until the test lets it."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self._held: set[int] = set()

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        descriptor = super().open(path, flags, mode)
        self._held.discard(descriptor)
        if "spill" in path.parts and path.suffix == ".log":
            self._held.add(descriptor)
        return descriptor

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        if descriptor in self._held:
            assert self.may_write.wait(HANG_SECONDS)
        return super().pwritev(descriptor, buffers, position, sync)


@pytest.fixture
def disk() -> HeldSpills:
    disk = HeldSpills()
    disk.may_write.set()
    return disk


@pytest.fixture
def server(tmp_path: Path, disk: HeldSpills) -> Iterator[ThreadedServer]:
    data = tmp_path / "data"
    with ThreadedServer(data, disk, ring_bytes=512 << 10, ring_bytes_total=1 << 20) as server:
        yield server


def fill(server: ThreadedServer, client: AmqpClient) -> None:
    client.open_channel(confirms=True)
    for number in range(QUEUES):
        client.declare(f"q{number}", durable=False)
        for body in FILLING:
            client.publish(body, f"q{number}")
        client.expect_confirmed()
    assert server.call(lambda: not server.server.broker.storage.pool.is_over)


def exceed(server: ThreadedServer, client: AmqpClient) -> None:
    """Publish the message with which the rings hold too much; return when they do no longer."""
    client.open_channel(confirms=True)
    client.declare("small", durable=False)
    client.publish(LAST, "small")
    client.expect_confirmed()
    await_room(server)


def await_room(server: ThreadedServer) -> None:
    pool = server.server.broker.storage.pool
    server.wait_until(lambda: pool.held_bytes <= 0.8 * pool.bytes_max)


def test_each_ring_is_relieved_in_a_turn_of_its_own(
    server: ThreadedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []
    release = MessageStore.release_memory

    def noted(store: MessageStore) -> bool:
        turns.append(server.server.broker.turn.number)
        return release(store)

    with connect(server.address) as large, connect(server.address) as small:
        fill(server, large)
        monkeypatch.setattr(MessageStore, "release_memory", noted)
        exceed(server, small)

        assert len(turns) > 1
        assert len(set(turns)) == len(turns)
        assert [large.ready_count(f"q{number}") for number in range(QUEUES)] == [8] * QUEUES


def task_queue_of(server: ThreadedServer, client: AmqpClient) -> TaskQueue:
    """Return the task queue in which the events of a client are handled."""
    port = client.socket.getsockname()[1]
    (session,) = (each._session for each in server.connections if f":{port} " in each.name)
    assert session is not None
    return session.task_queue


def test_the_client_that_publishes_above_the_limit_pays_for_no_write(
    server: ThreadedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged_clients: set[Hashable] = set()
    submit = Flusher.submit

    def noted(flusher: Flusher, request: Request, charged_client: Hashable = None) -> None:
        if isinstance(request, FlushRequest) and request.chunks:
            charged_clients.add(charged_client)
        submit(flusher, request, charged_client)

    with connect(server.address) as large, connect(server.address) as small:
        fill(server, large)
        monkeypatch.setattr(Flusher, "submit", noted)
        exceed(server, small)

        assert charged_clients == {task_queue_of(server, large)}, "whose messages are written"


def test_messages_for_which_consumers_wait_are_not_read_back(
    server: ThreadedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here no queue has its turn before the relief has ended and the disk has answered it."""
    relief = server.server.broker.storage._relief
    run_turn = BrokerQueue.run_turn

    def late(queue: BrokerQueue) -> None:
        if relief._steps is not None or (queue.store.is_flushing and not queue.store.written_end):
            server.server.broker.turn.mark(queue)
        else:
            run_turn(queue)

    begun: list[int] = []
    begin = WindowReader.begin

    def noted(reader: WindowReader, start: int, arrived: Arrived) -> None:
        begun.append(start)
        begin(reader, start, arrived)

    with connect(server.address) as publisher, ExitStack() as clients:
        consumers = [clients.enter_context(connect(server.address)) for _ in range(QUEUES)]
        for number, consumer in enumerate(consumers):
            consumer.open_channel()
            consumer.declare(f"q{number}", durable=False)
            consumer.call(Queue.Bind(queue=f"q{number}", exchange="amq.fanout"), Queue.BindOk)
            consumer.consume(f"q{number}")
        publisher.open_channel()
        monkeypatch.setattr(BrokerQueue, "run_turn", late)
        monkeypatch.setattr(WindowReader, "begin", noted)
        publisher.publish(LARGE, "", "amq.fanout")
        for consumer in consumers:
            assert consumer.expect_delivery().body == LARGE

        stores = server.server.broker.storage._stores.values()
        server.wait_until(lambda: any(store.written_end for store in stores))
        assert begun == []


def test_no_more_is_written_than_makes_room(server: ThreadedServer, disk: HeldSpills) -> None:
    storage = server.server.broker.storage
    with connect(server.address) as large, connect(server.address) as small:
        fill(server, large)
        small.open_channel()
        small.declare("small", durable=False)
        small.consume("small", no_ack=True)
        disk.may_write.clear()
        try:
            for _ in range(5):
                # Each begins again, while the disk has not answered yet.
                small.publish(LAST, "small")
                small.expect_delivery()
                server.wait_until(lambda: storage._relief._steps is None)
            stores = storage._stores.values()
            writing = server.call(lambda: sum(store.is_flushing for store in stores))
        finally:
            disk.may_write.set()
        await_room(server)
        assert 1 <= writing <= 3
