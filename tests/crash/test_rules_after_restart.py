"""Deadlines, priorities, limits, counts and dead letters after a restart."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import PERSISTENT, AmqpClient
from tests.conformance.polling import eventually
from tests.conftest import StartServer
from tests.crash.messages import channel_to, drain, flags, publish_confirmed, stop_cleanly
from tests.faults.inline_server import InlineClient, InlineServer
from tests.servers import RunningServer

pytestmark = pytest.mark.crash

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
LONG_MS = 3_600_000
Publish = Callable[[InlineServer], None]


def with_properties(**properties: Any) -> Basic.Properties:  # noqa: ANN401
    return Basic.Properties(delivery_mode=2, **properties)


def bodies(client: AmqpClient, queue: str) -> list[bytes]:
    return [body for body, _ in drain(client, queue)]


def restart(server: RunningServer, how: str) -> None:
    if how == "kill":
        server.kill()
    else:
        stop_cleanly(server)
    server.restart()


@contextmanager
def started_later(path: Path, how: str, publish: Publish, seconds: float) -> Iterator[InlineServer]:
    """Publish to one server, end it, and start the next one some seconds later, by its clocks."""
    with InlineServer(path / "first") as server:
        publish(server)
        if how == "kill":
            copy_data(path)
    if how == "stop":
        copy_data(path)
    later = InlineServer(path / "second")
    later.loop.pass_time(seconds)
    with later as server:
        yield server


def copy_data(path: Path) -> None:
    """Keep what is in the files now, which is all that a killed server leaves."""
    shutil.copytree(path / "first", path / "second", ignore=shutil.ignore_patterns("*.sock"))


def pass_time(server: InlineServer, seconds: float) -> None:
    server.loop.pass_time(seconds)
    # A timer that is due is no work yet: the loop has to look.
    server.loop.call_soon(lambda: None)
    server.settle()


def inline_bodies(client: InlineClient, queue: str) -> list[bytes]:
    found = []
    while (got := client.get(queue, no_ack=True)) is not None:
        found.append(got[2])
    return found


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_messages_that_expire_during_a_stop_become_dead_letters(tmp_path: Path, how: str) -> None:
    def publish(server: InlineServer) -> None:
        client = server.connect()
        arguments: Any = {"x-message-ttl": LONG_MS, **TO_DEAD}
        client.call(Queue.Declare(queue="dead", durable=True))
        client.call(Queue.Declare(queue="q", durable=True, arguments=arguments))
        client.open_channel(2, confirms=True)
        for number in range(6):
            properties = with_properties(expiration="400" if number % 2 else None)
            client.publish(b"%d" % number, "q", properties=properties, channel=2)
        server.settle()
        assert len(client.confirmed) == 6

    with started_later(tmp_path, how, publish, 0.4) as server:
        client = server.connect()
        assert inline_bodies(client, "dead") == [b"1", b"3", b"5"]
        assert inline_bodies(client, "q") == [b"0", b"2", b"4"]


def test_a_restart_does_not_change_deadlines(tmp_path: Path) -> None:
    def publish(server: InlineServer) -> None:
        client = server.connect()
        arguments: Any = {"x-message-ttl": 1500}
        client.call(Queue.Declare(queue="q", durable=True, arguments=arguments))
        for number in range(3):
            client.publish(b"%d" % number, "q")
        server.settle()

    with started_later(tmp_path, "stop", publish, 1.0) as server:
        queue = server.server.broker.vhosts["/"].queues["q"]
        assert queue.ready_count == 3
        pass_time(server, 0.499)
        assert queue.ready_count == 3
        pass_time(server, 0.002)
        assert queue.ready_count == 0


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_restart_keeps_priorities(server: RunningServer, how: str) -> None:
    with channel_to(server) as client:
        client.declare("q", arguments={"x-max-priority": 5})
        for priority in (1, 5, None, 3, 9):
            body = str(priority).encode()
            client.publish(body, "q", properties=with_properties(priority=priority))
        client.expect_confirmed()
        first = client.get("q", no_ack=False)
        assert first is not None
        assert first.body == b"5"
    restart(server, how)
    with channel_to(server) as client:
        delivered = drain(client, "q")
        assert [body for body, _ in delivered] == [b"5", b"9", b"3", b"1", b"None"]
        if how == "stop":
            assert [redelivered for _, redelivered in delivered] == [True] + [False] * 4


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_limit_in_octets_holds_after_a_restart(server: RunningServer, how: str) -> None:
    with channel_to(server) as client:
        client.declare("q", arguments={"x-max-length-bytes": 50})
        publish_confirmed(client, "q", range(5), size=10)
    restart(server, how)
    with channel_to(server) as client:
        publish_confirmed(client, "q", range(5, 8), size=10)
        assert [body[:1] for body in bodies(client, "q")] == [b"3", b"4", b"5", b"6", b"7"]


def test_a_restart_keeps_the_number_of_returns(start_server: StartServer) -> None:
    server = start_server("--offset-checkpoint-interval", "50ms")
    with channel_to(server) as client:
        client.declare("dead")
        client.declare("q", arguments={"x-queue-type": "quorum", "x-delivery-limit": 2, **TO_DEAD})
        publish_confirmed(client, "q", range(1))
        take_and_return(client, count=None)
        stop_cleanly(server, client)
    server.restart()
    with channel_to(server) as client:
        take_and_return(client, count=1)
        take_and_return(client, count=2)
        assert client.get("q") is None
        eventually(lambda: client.ready_count("dead") == 1)
        letter = client.get("dead")
        assert letter is not None
        headers: Any = letter.properties.headers
        assert headers["x-death"][0]["reason"] == "delivery_limit"


def take_and_return(client: AmqpClient, *, count: int | None) -> None:
    message = client.get("q", no_ack=False)
    assert message is not None
    assert (message.properties.headers or {}).get("x-delivery-count") == count
    client.send(Basic.Nack(message.tag, requeue=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_rejected_message_is_in_one_of_the_two_queues_whenever_the_server_dies(
    server: RunningServer, seed: int
) -> None:
    count = 400
    with channel_to(server) as client:
        client.declare("dead")
        client.declare("q", arguments=TO_DEAD)
        publish_confirmed(client, "q", range(count))
        client.consume("q")
        tags = [client.expect_delivery().tag for _ in range(count)]
        for tag in tags[: count // 2]:
            client.send(Basic.Reject(tag, requeue=False))
        # How far it gets is the machine's affair; each time it is somewhere else.
        for _ in range(seed * 3):
            client.call(Queue.Declare(queue="dead", passive=True), Queue.DeclareOk)
        server.kill()
    server.restart()
    with channel_to(server) as client:
        there = set(bodies(client, "q")) | set(bodies(client, "dead"))
        assert there == {body for body, _ in flags(range(count), redelivered=True)}


def test_more_expired_messages_than_fit_in_memory_become_dead_letters(
    start_server: StartServer,
) -> None:
    server = start_server("--ring-size", "1024")
    count = 5_000
    with channel_to(server) as client:
        client.declare("dead")
        client.declare("q", arguments={"x-message-ttl": 700, **TO_DEAD})
        publish_confirmed(client, "q", range(count))
        eventually(lambda: client.ready_count("dead") == count)
        assert client.ready_count("q") == 0
        assert sorted(map(int, bodies(client, "dead"))) == list(range(count))


def test_messages_within_a_backlog_expire_at_their_own_deadlines(
    start_server: StartServer,
) -> None:
    server = start_server("--ring-size", "1024")
    count = 6_000
    with channel_to(server) as client:
        client.declare("dead")
        client.declare("q", arguments=TO_DEAD)
        for number in range(count):
            expiration = None if number % 3 == 0 else str(1 + number * 7919 % 1500)
            client.publish(b"%d" % number, "q", properties=with_properties(expiration=expiration))
        client.expect_confirmed()
        eventually(lambda: client.ready_count("dead") == count * 2 // 3)
        assert list(map(int, bodies(client, "q"))) == list(range(0, count, 3))
        there = sorted(map(int, bodies(client, "dead")))
        assert there == [number for number in range(count) if number % 3]


def test_a_clean_stop_leaves_each_message_in_one_queue(server: RunningServer) -> None:
    count = 3_000
    with channel_to(server) as client:
        client.declare("dead")
        client.declare("q", arguments={"x-message-ttl": 300, **TO_DEAD})
        publish_confirmed(client, "q", range(count))
        eventually(lambda: client.ready_count("dead") > 0)
        stop_cleanly(server, client)
    server.restart()
    with channel_to(server) as client:
        eventually(lambda: client.ready_count("dead") >= count)
        assert sorted(map(int, bodies(client, "dead"))) == list(range(count))


def test_dropped_heads_are_dead_letters_in_order(server: RunningServer) -> None:
    with channel_to(server) as client:
        client.declare("dead")
        client.declare("q", arguments={"x-max-length": 3, **TO_DEAD})
        publish_confirmed(client, "q", range(10))
        eventually(lambda: client.ready_count("dead") == 7)
        assert bodies(client, "dead") == [b"%d" % number for number in range(7)]
        assert bodies(client, "q") == [b"7", b"8", b"9"]


def test_a_target_without_room_refuses_dead_letters_as_it_refuses_publishes(
    server: RunningServer,
) -> None:
    with channel_to(server) as client:
        client.declare("dead", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
        client.declare("q", arguments=TO_DEAD)
        publish_confirmed(client, "q", range(5))
        client.consume("q")
        for _ in range(5):
            client.send(Basic.Reject(client.expect_delivery().tag, requeue=False))
        eventually(lambda: client.ready_count("dead") == 2)
        assert bodies(client, "dead") == [b"0", b"1"]


def test_an_at_least_once_dead_letter_waits_until_a_queue_takes_it(server: RunningServer) -> None:
    once = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "later"}
    with channel_to(server) as client:
        client.declare(
            "q",
            arguments={
                "x-queue-type": "quorum",
                "x-overflow": "reject-publish",
                "x-dead-letter-strategy": "at-least-once",
                **once,
            },
        )
        client.publish(b"kept", "q", properties=PERSISTENT)
        client.expect_confirmed()
        message = client.get("q", no_ack=False)
        assert message is not None
        client.send(Basic.Reject(message.tag, requeue=False))
        assert client.ready_count("q") == 0
        client.declare("later")
        eventually(lambda: client.ready_count("later") == 1)
