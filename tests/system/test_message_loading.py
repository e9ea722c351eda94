"""The server loads messages with priorities or lifetimes after it listens."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.broker.rules.unloaded_attributes import UnloadedAttributes
from amqp_server.recovery import message_loading
from appendlog import LogFailedError
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

PRIORITIES = {"x-max-priority": 5}
HOUR_MS = 3_600_000


class Gate:
    """Holds the reading of backlogs; open at first."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_reached = threading.Event()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate, read_some = Gate(), UnloadedAttributes.read_some

    def gated(unread: UnloadedAttributes) -> bool:
        gate.is_reached.set()
        gate.is_open.wait()
        return read_some(unread)

    monkeypatch.setattr(UnloadedAttributes, "read_some", gated)
    yield gate
    gate.is_open.set()


def server_with(path: Path, arguments: dict[str, Any], properties: list[Basic.Properties]) -> None:
    """Leave the data of a server that stopped cleanly; bodies are numbers."""
    with ThreadedServer(path) as server, client_of(server) as client:
        client.declare("q", arguments=arguments)
        for number, each in enumerate(properties):
            client.publish(b"%d" % number, "q", properties=each)
        client.expect_confirmed()


def client_of(server: ThreadedServer) -> AmqpClient:
    client = connect(server.address)
    client.open_channel(confirms=True)
    return client


def with_priority(priority: int) -> Basic.Properties:
    return Basic.Properties(delivery_mode=2, priority=priority)


def drained(client: AmqpClient) -> list[bytes]:
    found = []
    while (message := client.get("q")) is not None:
        assert not message.redelivered
        found.append(message.body)
    return found


def test_the_server_listens_before_messages_are_loaded_and_delivers_them_in_order(
    tmp_path: Path, gate: Gate
) -> None:
    server_with(tmp_path, PRIORITIES, [with_priority(n % 3) for n in range(9)])
    gate.is_open.clear()
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        assert client.ready_count("q") == 9
        client.publish(b"high", "q", properties=with_priority(5))
        client.publish(b"low", "q", properties=with_priority(0))
        client.expect_confirmed()
        assert client.ready_count("q") == 11
        with client_of(server) as consumer:
            consumer.consume("q", prefetch=4)
            queue = server.server.broker.vhosts["/"].queues["q"]
            server.wait_until(lambda: len(queue.consumers) == 1)
            gate.is_open.set()
            bodies = [consumer.expect_delivery().body for _ in range(4)]
            assert bodies == [b"high", b"2", b"5", b"8"]


def test_a_get_waits_until_the_first_message_is_known(tmp_path: Path, gate: Gate) -> None:
    server_with(tmp_path, PRIORITIES, [with_priority(n) for n in range(4)])
    gate.is_open.clear()
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        client.send(Basic.Get(queue="q", no_ack=True))
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: bool(queue.loading._waiters))
        gate.is_open.set()
        assert client.expect(Basic.GetOk).message_count == 3


@pytest.mark.parametrize("arguments", [PRIORITIES, {"x-message-ttl": HOUR_MS}, {}])
def test_messages_published_during_loading_follow_the_loaded_ones_or_their_priority(
    tmp_path: Path, gate: Gate, arguments: dict[str, Any]
) -> None:
    # With an expiration each, a queue without arguments has something to know too.
    kinds = [
        Basic.Properties(delivery_mode=2, priority=n % 3, expiration=str(HOUR_MS + n))
        for n in range(9)
    ]
    server_with(tmp_path, arguments, kinds)
    gate.is_open.clear()
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        gate.is_reached.wait()
        for priority in (1, 5):
            client.publish(b"new %d" % priority, "q", properties=with_priority(priority))
        client.expect_confirmed()
        gate.is_open.set()
        old = [b"%d" % n for n in range(9)]
        if "x-max-priority" in arguments:
            by_priority = [b"new 5", *old[2::3], *old[1::3], b"new 1", *old[::3]]
            assert drained(client) == by_priority
        else:
            assert drained(client) == [*old, b"new 1", b"new 5"]


def test_messages_expire_only_when_all_are_loaded(tmp_path: Path, gate: Gate) -> None:
    kinds = [Basic.Properties(delivery_mode=2, expiration="1" if n % 2 else None) for n in range(6)]
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        client.declare("q", arguments={"x-dead-letter-exchange": "nowhere"})
        gate.is_open.clear()
        for number, each in enumerate(kinds):
            client.publish(b"%d" % number, "q", properties=each)
        client.expect_confirmed()
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        gate.is_reached.wait()
        waiting = client.ready_count("q")
        gate.is_open.set()
        assert drained(client) == [b"0", b"2", b"4"]
        assert waiting >= 3


def test_a_purge_removes_messages_that_are_not_loaded_yet_for_good(
    tmp_path: Path, gate: Gate
) -> None:
    server_with(tmp_path, PRIORITIES, [with_priority(n) for n in range(4)])
    gate.is_open.clear()
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        client.publish(b"new", "q", properties=with_priority(1))
        client.expect_confirmed()
        assert client.call(Queue.Purge(queue="q"), Queue.PurgeOk).message_count == 5
        assert client.ready_count("q") == 0
        client.publish(b"newer", "q", properties=with_priority(2))
        client.expect_confirmed()
        gate.is_open.set()
        assert drained(client) == [b"newer"]
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        assert client.ready_count("q") == 0


def test_a_queue_may_be_deleted_while_a_get_waits(tmp_path: Path, gate: Gate) -> None:
    server_with(tmp_path, PRIORITIES, [with_priority(n) for n in range(4)])
    gate.is_open.clear()
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        with client_of(server) as waiting:
            waiting.send(Basic.Get(queue="q"))
            queue = server.server.broker.vhosts["/"].queues["q"]
            server.wait_until(lambda: bool(queue.loading._waiters))
            deleted = client.call(Queue.Delete(queue="q"), Queue.DeleteOk)
            assert deleted.message_count == 4
            waiting.expect(Basic.GetEmpty)
        gate.is_open.set()
        client.declare("q")
        assert client.ready_count("q") == 0


@pytest.mark.parametrize("arguments", [PRIORITIES, {"x-message-ttl": HOUR_MS}])
def test_a_stop_during_loading_loses_no_message_and_marks_none_redelivered(
    tmp_path: Path, gate: Gate, arguments: dict[str, Any]
) -> None:
    server_with(tmp_path, arguments, [with_priority(1)] * 4)
    gate.is_open.clear()
    with ThreadedServer(tmp_path) as server:
        client = client_of(server)
        client.publish(b"new", "q", properties=with_priority(1))
        client.expect_confirmed()
        client.send(Basic.Get(queue="q"))
        gate.is_reached.wait()
        # A worker cannot be stopped; the test releases it when the loop waits no longer.
        threading.Timer(0.2, gate.is_open.set).start()
    client.socket.close()
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        assert drained(client) == [b"0", b"1", b"2", b"3", b"new"]


def test_segments_without_priorities_are_not_read(tmp_path: Path, gate: Gate) -> None:
    server_with(tmp_path, PRIORITIES, [with_priority(0)] * 6)
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        queue = server.server.broker.vhosts["/"].queues["q"]
        server.wait_until(lambda: not queue.loading.is_loading)
        assert drained(client) == [b"%d" % number for number in range(6)]
        assert queue.store.log.damaged == []


def test_the_messages_of_a_queue_with_a_length_limit_are_loaded_before_the_server_listens(
    tmp_path: Path, gate: Gate
) -> None:
    arguments = PRIORITIES | {"x-max-length": 4, "x-overflow": "reject-publish"}
    server_with(tmp_path, arguments, [with_priority(n) for n in range(4)])
    with ThreadedServer(tmp_path) as server:
        client = client_of(server)
        assert not server.server.broker.vhosts["/"].queues["q"].loading.is_loading
        client.publish(b"refused", "q", properties=with_priority(1))
        client.expect(Basic.Nack)
        client.close()


def test_forced_removal_waits_for_loading_and_makes_dead_letters(
    tmp_path: Path, gate: Gate
) -> None:
    """It was settled, lost as a dead letter, and ready for ever after."""
    segments = {"x-force-remove-after": 1, "x-segment-max-bytes": 65_536}
    dead_letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        client_of(server) as client,
    ):
        client.declare("dead")
        client.declare("q", arguments=PRIORITIES | segments | dead_letters)
        for number in range(10):
            body = b"%d" % number + bytes(20_000)
            client.publish(body, "q", properties=with_priority(number % 3))
            client.expect_confirmed()
    gate.is_open.clear()
    with (
        ThreadedServer(tmp_path, offset_checkpoint_interval_seconds=0) as server,
        client_of(server) as client,
    ):
        gate.is_reached.wait()
        checkpointer = server.server.checkpointer
        server.run(checkpointer.write_round)
        queues = server.server.broker.vhosts["/"].queues
        assert queues["q"].settlement.ack_floor == 0
        assert client.ready_count("q") == 10
        gate.is_open.set()
        server.wait_until(lambda: not queues["q"].loading.is_loading)
        server.run(checkpointer.write_round)
        server.wait_until(lambda: queues["q"].settlement.ack_floor == 9)
        assert client.ready_count("dead") == 9
        assert client.ready_count("q") == 1


def test_an_unreadable_log_delays_its_own_queue_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        for name, count in (("broken", 1), ("q", 2)):
            client.declare(name, arguments=PRIORITIES)
            for number in range(count):
                client.publish(b"%d" % number, name, properties=with_priority(1))
            client.expect_confirmed()
    is_broken, read_some = threading.Event(), UnloadedAttributes.read_some
    is_broken.set()

    def read(unread: UnloadedAttributes) -> bool:
        if is_broken.is_set() and unread._log.identity.queue == "broken":
            raise LogFailedError(tmp_path, OSError(5, "broken"))
        return read_some(unread)

    monkeypatch.setattr(UnloadedAttributes, "read_some", read)
    monkeypatch.setattr(message_loading, "READ_RETRY_SECONDS", 0.01)
    with ThreadedServer(tmp_path) as server, client_of(server) as client:
        assert drained(client) == [b"0", b"1"]
        assert client.ready_count("broken") == 1
        is_broken.clear()
        message = client.get("broken")
        assert message is not None
        assert message.body == b"0"
