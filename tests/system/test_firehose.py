"""The firehose beside a disk that is behind, large messages, restarts and other ways to turn it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp.commands import Basic, Confirm, Queue

from amqp_server.broker.firehose import firehose
from amqp_server.broker.queue import Queue as BrokerQueue
from amqp_server.broker.routing.steps import Steps
from amqp_server.broker.transfers.large_body import STEP_BYTES, with_body
from amqp_server.control.client import ask
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.servers import RunningServer
from tests.system.held_queue import COUNT, QUEUE, RING, HeldLogs
from tests.threaded_server import ThreadedServer

TRACE = "amq.rabbitmq.trace"
ROUND_TRIPS = 50
"""More than the server needs to take or deliver `COUNT` messages, if nothing holds it back."""


def trace(path: Path, *, is_on: bool = True) -> None:
    ask(path, "vhosts.trace", name="/", is_on=is_on)


def tracing(path: Path) -> bool:
    (vhost,) = ask(path, "vhosts.list")
    return bool(vhost["tracing"])


def bind(client: AmqpClient, queue: str, key: str) -> None:
    client.call(Queue.Bind(queue=queue, exchange=TRACE, routing_key=key), Queue.BindOk)


@pytest.fixture
def disk() -> HeldLogs:
    return HeldLogs()


@pytest.fixture
def server(tmp_path: Path, disk: HeldLogs) -> Iterator[ThreadedServer]:
    """Start a server with small rings, one of whose queues can be held: `QUEUE`, for traces."""
    with ThreadedServer(tmp_path, disk, **RING) as server:
        with connect(server.address) as client:
            client.open_channel()
            client.declare(QUEUE)
        yield server
        disk.is_free.set()


def traces_of(server: ThreadedServer) -> BrokerQueue:
    """Return the queue of traces inside the server."""
    return server.server.broker.vhosts["/"].queues[QUEUE]


def test_publishers_wait_for_room_in_a_queue_of_traces(
    server: ThreadedServer, disk: HeldLogs, tmp_path: Path
) -> None:
    traces = traces_of(server)
    with connect(server.address) as client, connect(server.address) as other:
        for each in (client, other):
            each.open_channel()
        client.declare("work")
        bind(client, QUEUE, "publish.#")
        trace(tmp_path)
        disk.is_free.clear()
        body = bytes(1024)
        for _ in range(COUNT):
            client.publish(body, "work", properties=PERSISTENT)
        server.wait_until(lambda: traces.store.is_stalled)
        for _ in range(ROUND_TRIPS):
            other.ready_count("work")
        taken = server.call(lambda: traces.store.end_offset)
        assert taken < COUNT
        assert other.ready_count("work") == taken
        disk.is_free.set()
        server.wait_until(lambda: traces.store.recovery_point == COUNT)
        assert client.ready_count("work") == COUNT


def test_a_consumer_waits_for_room_in_a_queue_of_traces(
    server: ThreadedServer, disk: HeldLogs, tmp_path: Path
) -> None:
    traces = traces_of(server)
    with connect(server.address) as client:
        client.open_channel()
        client.declare("work")
        for number in range(COUNT):
            client.publish(b"%1024d" % number, "work")
        bind(client, QUEUE, "deliver.work")
        trace(tmp_path)
        disk.is_free.clear()
        consumer = connect(server.address)
        consumer.open_channel()
        consumer.consume("work", no_ack=True)
        server.wait_until(lambda: traces.store.is_stalled)
        for _ in range(ROUND_TRIPS):
            client.ready_count("work")
        taken = server.call(lambda: traces.store.end_offset)
        assert taken < COUNT
        disk.is_free.set()
        for number in range(COUNT):
            assert consumer.expect_delivery().body == b"%1024d" % number
        server.wait_until(lambda: traces.store.recovery_point == COUNT)
        consumer.socket.close()


def test_a_consumer_goes_on_when_the_queue_of_traces_is_deleted(
    server: ThreadedServer, disk: HeldLogs, tmp_path: Path
) -> None:
    traces = traces_of(server)
    with connect(server.address) as client, connect(server.address) as consumer:
        client.open_channel()
        consumer.open_channel()
        client.declare("work")
        for number in range(COUNT):
            client.publish(b"%1024d" % number, "work")
        bind(client, QUEUE, "deliver.work")
        trace(tmp_path)
        disk.is_free.clear()
        consumer.consume("work", no_ack=True)
        server.wait_until(lambda: traces.store.is_stalled)
        client.send(Queue.Delete(queue=QUEUE))
        for number in range(COUNT):
            assert consumer.expect_delivery().body == b"%1024d" % number
        disk.is_free.set()
        client.expect(Queue.DeleteOk)


def test_the_body_of_a_large_message_is_copied_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = bytes(range(256)) * (32 * 1024)
    steps = 0

    def with_counted_steps(front: bytes, whole: memoryview) -> Steps[bytes]:
        nonlocal steps
        copying = with_body(front, whole)
        while True:
            try:
                yield next(copying)
            except StopIteration as end:
                return bytes(end.value)
            steps += 1

    monkeypatch.setattr(firehose, "with_body", with_counted_steps)
    with ThreadedServer(tmp_path) as server, connect(server.address) as client:
        client.open_channel()
        client.declare("work", durable=False, exclusive=True)
        client.declare("traces", durable=False, exclusive=True)
        bind(client, "traces", "#")
        trace(tmp_path)
        client.call(Confirm.Select(), Confirm.SelectOk)
        client.publish(body, "work", properties=Basic.Properties())
        client.expect_confirmed()
        assert client.get("work") is not None
        for key in ("publish.", "deliver.work"):
            traced = client.get("traces")
            assert traced is not None
            assert isinstance(traced.method, Basic.GetOk)
            assert (traced.method.routing_key, traced.body) == (key, body)
    assert steps == 2 * len(body) // STEP_BYTES


def test_a_client_that_leaves_while_its_deliveries_are_traced_harms_nothing(
    server: ThreadedServer, disk: HeldLogs, tmp_path: Path
) -> None:
    traces = traces_of(server)
    with connect(server.address) as client:
        client.open_channel()
        client.declare("work")
        for _ in range(COUNT):
            client.publish(bytes(1024), "work")
        bind(client, QUEUE, "deliver.work")
        trace(tmp_path)
        disk.is_free.clear()
        with connect(server.address) as consumer:
            consumer.open_channel()
            consumer.consume("work")
            server.wait_until(lambda: traces.store.is_stalled)
        server.wait_until(lambda: len(server.connections) == 1)
        disk.is_free.set()
        assert client.ready_count("work") == COUNT
        message = client.get("work")
        assert message is not None
        assert message.redelivered


def test_a_restart_turns_it_off_and_the_audit_log_says_who_turned_it_on(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        server.start()
        assert not tracing(server.storage_path)
        trace(server.storage_path)
        assert tracing(server.storage_path)
        server.terminate()
        server.start()
        assert not tracing(server.storage_path)
        found = ask(server.storage_path, "audit.list", before="", limit=10, events=["vhost.traced"])
        (event,) = found["events"]
        assert (event["object"], event["details"]) == ("/", {"is_on": True})


def test_a_virtual_host_that_is_made_again_is_not_traced(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "data") as server:
        server.start()
        path = server.storage_path
        ask(path, "vhosts.add", name="team")
        ask(path, "vhosts.trace", name="team", is_on=True)
        assert [each["tracing"] for each in ask(path, "vhosts.list")] == [False, True]
        ask(path, "vhosts.delete", name="team")
        ask(path, "vhosts.add", name="team")
        assert [each["tracing"] for each in ask(path, "vhosts.list")] == [False, False]
