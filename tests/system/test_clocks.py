"""The server works while the wall clock is wrong for a moment."""

from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server.broker.queue import Queue as BrokerQueue
from amqp_server.testing.clock import TurnedClock
from tests.amqp_client import AmqpClient, connect
from tests.system.test_stream_retention import SEGMENT_MESSAGES, fill, stream_of
from tests.threaded_server import ThreadedServer

TTL_MS = 250
YEAR_SECONDS = 365 * 86_400
HOUR_SECONDS = 3_600
DURABLE = Basic.Properties(delivery_mode=2)


class WallClock(TurnedClock):
    """A clock whose time of day a test sets. Its monotonic time does not move with it.

    Attributes:
        ahead_seconds: How far the time of day is wrong.
    """

    def __init__(self) -> None:
        super().__init__(stands_still=True)
        self.ahead_seconds = 0

    def time_ns(self) -> int:
        """Return the wrong time of day."""
        return super().time_ns() + self.ahead_seconds * 10**9


@pytest.fixture
def clock() -> WallClock:
    """Return the clock of the server."""
    return WallClock()


def running(path: Path, clock: WallClock) -> ThreadedServer:
    return ThreadedServer(path, clock=clock, offset_checkpoint_interval_seconds=0)


def queue_of(server: ThreadedServer, name: str = "q") -> BrokerQueue:
    return server.server.broker.vhosts["/"].queues[name]


def publish(client: AmqpClient, count: int, properties: Basic.Properties = DURABLE) -> None:
    for number in range(count):
        client.publish(b"%d" % number, "q", properties=properties)
        client.expect_confirmed()


def publish_to_stream(
    server: ThreadedServer, first: int, count: int, arguments: dict[str, Any]
) -> None:
    with connect(server.address) as client:
        fill(client, count, arguments, first)


@pytest.mark.parametrize("step_seconds", [-2 * HOUR_SECONDS, -59, 2 * HOUR_SECONDS])
@pytest.mark.parametrize("is_of_queue", [True, False])
def test_messages_expire_in_time_although_the_wall_clock_is_set(
    tmp_path: Path, clock: WallClock, step_seconds: int, is_of_queue: bool
) -> None:
    with running(tmp_path, clock) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-message-ttl": TTL_MS} if is_of_queue else {})
        lifetime = None if is_of_queue else str(TTL_MS)
        properties = Basic.Properties(delivery_mode=2, expiration=lifetime)
        publish(client, 2, properties)
        clock.ahead_seconds = step_seconds
        publish(client, 1, properties)
        # No message expires because the wall clock is set forward.
        clock.advance(milliseconds=TTL_MS - 1)
        assert client.ready_count("q") == 3
        clock.advance(milliseconds=1)
        assert client.ready_count("q") == 0


def test_messages_stamped_a_year_ahead_expire_one_lifetime_after_a_start(
    tmp_path: Path, clock: WallClock
) -> None:
    with running(tmp_path, clock) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", arguments={"x-message-ttl": TTL_MS * 10_000})
        clock.ahead_seconds = YEAR_SECONDS
        publish(client, 2, Basic.Properties(delivery_mode=2, expiration=str(TTL_MS * 3)))
    clock.ahead_seconds = 0
    with running(tmp_path, clock) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        publish(client, 1, Basic.Properties(delivery_mode=2, expiration=str(TTL_MS)))
        queue = queue_of(server)
        clock.advance(milliseconds=TTL_MS * 3 - 1)
        assert client.ready_count("q") == 2
        clock.advance(milliseconds=1)
        assert queue.settlement.ack_floor == queue.store.end_offset == 3
        assert [each.first_offset for each in queue.store.log.summaries()] == [0, 2]


def test_delayed_messages_stamped_a_year_ahead_arrive_in_time(
    tmp_path: Path, clock: WallClock
) -> None:
    delayed = Basic.Properties(headers={"x-delay": TTL_MS}, delivery_mode=2)
    with running(tmp_path, clock) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        arguments: Any = {"x-delayed-type": "direct"}
        client.call(
            Exchange.Declare(
                0, "x", "x-delayed-message", False, True, False, False, False, arguments
            ),
            Exchange.DeclareOk,
        )
        client.declare("q")
        client.call(Queue.Bind(0, "q", "x", "key"), Queue.BindOk)
        clock.ahead_seconds = YEAR_SECONDS
        client.publish(b"early", "key", "x", properties=delayed)
        client.expect_confirmed()
    clock.ahead_seconds = 0
    with running(tmp_path, clock) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        clock.advance(milliseconds=TTL_MS - 1)
        assert client.get("q") is None
        clock.advance(milliseconds=1)
        message = client.get("q")
        assert message is not None
        assert message.body == b"early"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_stream_removes_segments_stamped_a_year_ahead(
    tmp_path: Path, clock: WallClock, is_restarted: bool
) -> None:
    arguments = {"x-max-age": "1h"}
    count = 3 * SEGMENT_MESSAGES
    with running(tmp_path, clock) as server:
        clock.ahead_seconds = YEAR_SECONDS
        publish_to_stream(server, 0, count, arguments)
        clock.ahead_seconds = 0
        if not is_restarted:
            publish_to_stream(server, count, count, arguments)
    if is_restarted:
        with running(tmp_path, clock) as server:
            publish_to_stream(server, count, count, arguments)
    with running(tmp_path, clock) as server:
        log = stream_of(server).store.log
        # They step back once, and no segment is begun for each message.
        assert len(log.segments) == 2 * count // SEGMENT_MESSAGES
        assert log.segments[3].base_offset == count
        clock.ahead_seconds = HOUR_SECONDS - 60
        server.run(server.server.checkpointer.write_round)
        assert stream_of(server).settlement.ack_floor == 0
        clock.ahead_seconds = HOUR_SECONDS + 60
        for _ in range(2):
            server.run(server.server.checkpointer.write_round)
        # The last segment stays.
        server.wait_until(lambda: log.log_start_offset == 2 * count - SEGMENT_MESSAGES)


def test_a_seek_by_time_finds_messages_behind_a_segment_stamped_a_year_ahead(
    tmp_path: Path, clock: WallClock
) -> None:
    with running(tmp_path, clock) as server:
        for first, ahead_seconds in ((0, 0), (3, YEAR_SECONDS), (6, 1)):
            clock.ahead_seconds = ahead_seconds
            publish_to_stream(server, first, 3, {})
        log = stream_of(server).store.log
        assert [each.base_offset for each in log.segments] == [0, 3, 6]
        assert log.first_offset_at(clock.time_ns() - HOUR_SECONDS * 10**9) == 0
        assert log.first_offset_at(clock.time_ns() + HOUR_SECONDS * 10**9) == 3
        assert log.last_timestamp_ns == clock.time_ns()
