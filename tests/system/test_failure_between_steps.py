"""A log fails between two steps of a long operation: nothing is confirmed, lost or kept twice.

Every slice is over after one step. The disk of one queue refuses a write while the operation is
cut, and the server applies that before it goes on.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest
from pamqp import frame
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.base import time_slice
from amqp_server.broker import channel as channel_module
from amqp_server.broker import queue as queue_module
from amqp_server.broker.consuming import requeueing
from amqp_server.broker.publishing import publishing
from amqp_server.broker.queue import Queue as BrokerQueue
from amqp_server.broker.transfers import forwarder
from appendlog import FileSystem
from tests.amqp_client import AmqpClient, connect
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

QUEUES = 8
MESSAGES = 12
PERSISTENT = Basic.Properties(delivery_mode=2)


class OneBadLog(FileSystem):
    """Refuses writes to the log of one queue, once that is named; the disk has no room there."""

    def __init__(self) -> None:
        self.bad_queue = ""
        self.bad_descriptors: dict[int, str] = {}
        self.has_refused = Event()
        self.has_written_again = Event()

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        descriptor = super().open(path, flags, mode)
        self.bad_descriptors[descriptor] = path.parent.parent.name
        return descriptor

    def pwrite(self, descriptor: int, data: bytes, position: int) -> int:
        self._check(descriptor)
        return super().pwrite(descriptor, data, position)

    def pwritev(
        self, descriptor: int, buffers: Sequence[bytes | memoryview], position: int, sync: bool
    ) -> int:
        self._check(descriptor)
        return super().pwritev(descriptor, buffers, position, sync)

    def _check(self, descriptor: int) -> None:
        if self.bad_queue and self.bad_descriptors.get(descriptor) == self.bad_queue:
            self.has_refused.set()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.has_refused.is_set():
            self.has_written_again.set()


@pytest.fixture(autouse=True)
def one_step_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slice, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(publishing, "STEP_QUEUES", 1)
    monkeypatch.setattr(forwarder, "STEP_QUEUES", 1)
    monkeypatch.setattr(channel_module, "STEP_RUNS", 1)
    monkeypatch.setattr(requeueing, "STEP_RANGES", 1)
    monkeypatch.setattr(requeueing, "STEP_MESSAGES", 1)
    monkeypatch.setattr(queue_module, "PURGE_STEP_OFFSETS", 1)


@pytest.fixture
def disk() -> OneBadLog:
    return OneBadLog()


@pytest.fixture
def server(tmp_path: Path, disk: OneBadLog) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path, disk) as server:
        yield server


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[AmqpClient]:
    with ExitStack() as stack:
        client = stack.enter_context(connect(server.address))
        client.open_channel(confirms=True)
        client.declare("other", durable=True)
        client.publish(b"", "other", properties=PERSISTENT)
        client.expect_confirmed()
        yield client


def queue_of(server: ThreadedServer, name: str) -> BrokerQueue:
    return server.server.broker.vhosts["/"].queues[name]


def fan_out(client: AmqpClient) -> list[str]:
    client.call(Exchange.Declare(exchange="all", exchange_type="fanout"), Exchange.DeclareOk)
    names = [f"q{number}" for number in range(QUEUES)]
    for name in names:
        client.declare(name, durable=True)
        client.call(Queue.Bind(queue=name, exchange="all"), Queue.BindOk)
        client.publish(b"before", name, properties=PERSISTENT)
        client.expect_confirmed()
    return names


class Failure:
    """Fails the log of one queue when `method` of a queue is called for the `count`th time.

    The next step begins when the flusher has reported the failure to the loop.
    """

    def __init__(
        self, server: ThreadedServer, disk: OneBadLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.server = server
        self.disk = disk
        self.monkeypatch = monkeypatch
        self.seen: list[bool] = []

    def arm(self, name: str, method: str, count: int) -> None:
        queue = queue_of(self.server, name)
        original: Callable[..., object] = getattr(BrokerQueue, method)
        calls = [0]

        def counted(this: BrokerQueue, *arguments: object) -> object:
            calls[0] += 1
            if calls[0] == count:
                self._fail(queue)
            self.seen.append(queue.is_failed)
            return original(this, *arguments)

        self.monkeypatch.setattr(BrokerQueue, method, counted)

    def _fail(self, queue: BrokerQueue) -> None:
        self.disk.bad_queue = queue.name
        queue.store.run_journal(may_wait=False)
        queue.store.request_roll()
        assert self.disk.has_refused.wait(HANG_SECONDS), "nothing was written"
        # The flusher has reported one round before it begins the next.
        queue_of(self.server, "other").store.request_roll()
        assert self.disk.has_written_again.wait(HANG_SECONDS), "nothing else was written"


@pytest.fixture
def failure(server: ThreadedServer, disk: OneBadLog, monkeypatch: pytest.MonkeyPatch) -> Failure:
    return Failure(server, disk, monkeypatch)


def get_all(client: AmqpClient, name: str) -> list[bytes]:
    bodies: list[bytes] = []
    while (message := client.get(name)) is not None:
        bodies.append(message.body)
    return bodies


def test_a_message_for_many_queues_is_refused_and_leaves_the_one_that_failed(
    server: ThreadedServer, client: AmqpClient, failure: Failure
) -> None:
    names = fan_out(client)
    failure.arm(names[0], "publish", 2)
    client.send_raw(client.publish_octets(Basic.Publish(exchange="all"), b"new", PERSISTENT))

    assert client.expect(Basic.Nack).delivery_tag == QUEUES + 2
    assert failure.seen[0] is False
    assert failure.seen[-1] is True, "the failure was not between two steps"
    assert get_all(client, names[0]) == [b"before"]
    for name in names[1:]:
        assert get_all(client, name) == [b"before", b"new"]


def test_only_what_a_failed_log_should_have_got_is_refused_of_a_batch(
    server: ThreadedServer,
    client: AmqpClient,
    disk: OneBadLog,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of one with more barriers than may be taken apart."""
    monkeypatch.setattr(publishing, "BARRIERS_MAX", 1)
    client.declare("bad", durable=True)
    client.publish(b"before", "bad", properties=PERSISTENT)
    client.expect_confirmed()
    disk.bad_queue = "bad"
    client.publish(b"", "bad", properties=PERSISTENT)
    (failed,) = answers(client, 1)

    names = ["other", "bad"] * 5
    client.send_raw(
        b"".join(
            client.publish_octets(Basic.Publish(routing_key=name), b"new", PERSISTENT)
            for name in names
        )
    )

    assert failed is Basic.Nack
    assert answers(client, len(names)) == [Basic.Ack, Basic.Nack] * 5
    assert queue_of(server, "other").ready_count == 6


def answers(client: AmqpClient, count: int) -> list[type[Basic.Ack | Basic.Nack]]:
    """Return the answers to the next publishes, one for each."""
    found: list[type[Basic.Ack | Basic.Nack]] = []
    before: int | None = None
    while len(found) < count:
        _, answer = client.receive()
        assert isinstance(answer, (Basic.Ack, Basic.Nack))
        if before is None:
            before = answer.delivery_tag - 1
        found += [type(answer)] * (answer.delivery_tag - before if answer.multiple else 1)
        before = answer.delivery_tag
    return found


def test_all_messages_return_to_a_queue_whose_log_fails_in_the_middle(
    server: ThreadedServer, client: AmqpClient, failure: Failure
) -> None:
    client.declare("q", durable=True, arguments={"x-max-priority": 1})
    for number in range(MESSAGES):
        properties = Basic.Properties(delivery_mode=2, priority=number % 2)
        client.publish(b"%d" % number, "q", properties=properties)
        client.expect_confirmed()
    tags = [
        message.tag
        for message in (client.get("q", no_ack=False) for _ in range(MESSAGES))
        if message
    ]
    client.publish(b"unsafe", "q", properties=PERSISTENT)
    client.expect_confirmed()
    failure.arm("q", "requeue_all", 2)
    nack = frame.marshal(Basic.Nack(delivery_tag=tags[-1], multiple=True, requeue=True), 1)
    client.send_raw(nack)
    server.wait_until(lambda: queue_of(server, "q").is_failed)

    assert client.ready_count("q") == MESSAGES + 1
    in_order = [b"%d" % number for number in [*range(1, MESSAGES, 2), *range(0, MESSAGES, 2)]]
    assert get_all(client, "q") == [*in_order, b"unsafe"]


def test_a_dead_letter_waits_for_the_queue_that_failed_in_the_middle(
    server: ThreadedServer, client: AmqpClient, failure: Failure
) -> None:
    names = fan_out(client)
    client.declare("source", durable=True, arguments={"x-dead-letter-exchange": "all"})
    client.publish(b"dead", "source", properties=PERSISTENT)
    client.expect_confirmed()
    failure.arm(names[0], "publish", 2)
    message = client.get("source", no_ack=False)
    assert message is not None
    client.send_raw(frame.marshal(Basic.Nack(delivery_tag=message.tag, requeue=False), 1))
    server.wait_until(lambda: queue_of(server, names[0]).is_failed)
    others = [queue_of(server, name) for name in names[1:]]
    server.wait_until(lambda: all(queue.ready_count == 2 for queue in others))

    source = queue_of(server, "source")
    assert source.settlement.settled_count == 0
    assert get_all(client, names[0]) == [b"before"]
    for name in names[1:]:
        assert get_all(client, name) == [b"before", b"dead"]
