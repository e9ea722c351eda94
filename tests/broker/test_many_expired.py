"""Many messages expire at once: no request removes them all by itself, and none counts them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pamqp import frame
from pamqp.commands import Basic, Queue

from amqp_server.base.clock import SystemClock
from amqp_server.broker import queue as queue_module
from amqp_server.broker.rules import deadlines, queue_rules
from tests.amqp_client import AmqpClient, connect
from tests.cutting import together
from tests.threaded_server import ThreadedServer

STEP = 4
"""Expired messages that one step removes here."""
COUNT = 10 * STEP
NAME = "expiring"


class Clock:
    """Stands still; once it is armed, the next request of the queue moves it."""

    def __init__(self) -> None:
        self.milliseconds = 1_000
        self.is_armed = False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(SystemClock, "monotonic_ms", lambda _: clock.milliseconds)
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 0.0)
    for module in (queue_rules, deadlines):
        monkeypatch.setattr(module, "DUE_RUNS_MAX", STEP)
    monkeypatch.setattr(deadlines, "PAGE_RUNS", STEP)
    bring_up_to_date = queue_module.Queue.bring_up_to_date

    def moved(self: queue_module.Queue) -> bool:
        if clock.is_armed:
            clock.milliseconds = 100_000
        return bring_up_to_date(self)

    monkeypatch.setattr(queue_module.Queue, "bring_up_to_date", moved)
    return clock


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the queues that a request waited for."""
    names: list[str] = []
    until_up_to_date = queue_module.Queue.until_up_to_date

    async def noted(self: queue_module.Queue) -> None:
        names.append(self.name)
        await until_up_to_date(self)

    monkeypatch.setattr(queue_module.Queue, "until_up_to_date", noted)
    return names


@pytest.fixture
def server(tmp_path: Path, clock: Clock) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path) as server:
        yield server


@pytest.fixture
def client(server: ThreadedServer, clock: Clock) -> Iterator[AmqpClient]:
    """Yield a client of a queue whose messages expire when it is asked, but for the last one."""
    with connect(server.address) as client:
        client.open_channel()
        client.open_channel(2, confirms=True)
        client.declare(NAME)
        for number in range(COUNT):
            # Neighbours with equal deadlines would be one run.
            lifetime = Basic.Properties(expiration=str(60_000 + number % 2))
            client.publish(b"expired", NAME, properties=lifetime, channel=2)
        client.publish(b"kept", NAME, channel=2)
        client.expect_confirmed(channel=2)
        assert client.ready_count(NAME) == COUNT + 1
        clock.is_armed = True
        yield client


def test_one_request_removes_one_step(client: AmqpClient, server: ThreadedServer) -> None:
    queue = server.server.broker.vhosts["/"].queues[NAME]

    def look() -> tuple[bool, int]:
        return queue.bring_up_to_date(), queue.ready_count

    assert server.call(look) == (False, COUNT + 1 - STEP)


def test_a_declare_counts_what_is_left(client: AmqpClient, waited: list[str]) -> None:
    assert client.ready_count(NAME) == 1
    assert waited == [NAME]


def test_a_get_gets_what_is_left(client: AmqpClient, waited: list[str]) -> None:
    message = client.get(NAME)
    assert message is not None
    assert message.body == b"kept"
    assert waited == [NAME]


def test_a_purge_counts_what_is_left(client: AmqpClient, waited: list[str]) -> None:
    assert client.call(Queue.Purge(queue=NAME), Queue.PurgeOk).message_count == 1
    assert waited == [NAME]


def test_a_delete_counts_what_is_left(client: AmqpClient) -> None:
    assert client.call(Queue.Delete(queue=NAME), Queue.DeleteOk).message_count == 1


def test_a_delete_removes_them_in_many_turns(
    client: AmqpClient, server: ThreadedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = server.server.broker.turn
    turns, answers = list[int](), list[bool]()
    bring_up_to_date = queue_module.Queue.bring_up_to_date

    def noted(self: queue_module.Queue) -> bool:
        turns.append(turn.number)
        answers.append(bring_up_to_date(self))
        return answers[-1]

    monkeypatch.setattr(queue_module.Queue, "bring_up_to_date", noted)

    client.call(Queue.Delete(queue=NAME, if_empty=False), Queue.DeleteOk)

    # The request looks, and so does its first step.
    assert max(map(turns.count, turns)) <= 2
    # Another look would remove all that has become due since the last one.
    assert answers.index(True) == len(answers) - 1
    assert len(turns) >= COUNT // STEP // 2


def test_a_delete_of_an_empty_queue_counts_what_is_left(client: AmqpClient) -> None:
    client.send(Queue.Delete(queue=NAME, if_empty=True))
    assert "not empty" in client.expect_channel_close(406).reply_text
    client.open_channel()
    assert client.ready_count(NAME) == 1


def test_a_declare_behind_a_delete_makes_a_new_queue(client: AmqpClient) -> None:
    client.send(Queue.Delete(queue=NAME))
    client.send(Queue.Declare(queue=NAME))
    assert client.expect(Queue.DeleteOk).message_count == 1
    assert client.expect(Queue.DeclareOk).message_count == 0


def test_a_queue_that_two_clients_delete_is_gone_once(
    client: AmqpClient, server: ThreadedServer
) -> None:
    delete = frame.marshal(Queue.Delete(queue=NAME), 1)
    with connect(server.address) as other:
        other.open_channel()
        together(server, (client, delete), (other, delete))

        assert client.expect(Queue.DeleteOk).message_count in (0, 1)
        assert other.expect(Queue.DeleteOk).message_count in (0, 1)


def test_a_consumer_begins_with_what_is_left(client: AmqpClient, waited: list[str]) -> None:
    client.consume(NAME)
    assert client.expect_delivery().body == b"kept"
    assert waited == [NAME]


def test_a_queue_that_is_deleted_ends_the_wait(client: AmqpClient, waited: list[str]) -> None:
    """Both methods arrive together: the delete does not wait for the declare."""
    client.send(Queue.Declare(queue=NAME, passive=True))
    client.send(Queue.Delete(queue=NAME))
    assert client.expect(Queue.DeclareOk).message_count in (0, 1)
    assert client.expect(Queue.DeleteOk).message_count == 1
    assert waited == [NAME]
