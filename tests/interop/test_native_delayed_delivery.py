"""kombu's native delayed delivery: 28 topic exchanges and queues, one for each bit of a delay.

A message goes into the queue of each bit that is set in its delay, and is dead-lettered to the next
level when the queue's time is over; what is left at the end goes to the exchange it was meant for.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import kombu
import pytest
from kombu.transport.native_delayed_delivery import (
    MAX_LEVEL,
    bind_queue_to_native_delayed_delivery_exchange,
    calculate_routing_key,
    declare_native_delayed_delivery_exchanges_and_queues,
    level_name,
)

from tests.conftest import StartServer
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop


class Arrival(NamedTuple):
    """A message that came out."""

    body: Any
    seconds: float
    routing_key: str
    headers: dict[str, Any]


@pytest.fixture
def connection(url: str) -> Iterator[kombu.Connection]:
    """Open a kombu connection with confirms."""
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as opened:
        yield opened


@pytest.fixture(params=["classic", "quorum"])
def queue(request: pytest.FixtureRequest, connection: kombu.Connection, name: str) -> kombu.Queue:
    """Declare all levels and a queue behind them."""
    return declare(connection, name, request.param)


def declare(connection: kombu.Connection, name: str, queue_type: str) -> kombu.Queue:
    """Declare all levels and a queue behind them."""
    declare_native_delayed_delivery_exchanges_and_queues(connection, queue_type, prefix=name)
    exchange = kombu.Exchange(name, "topic", durable=True)
    queue = kombu.Queue(
        name, exchange, routing_key="task", queue_arguments={"x-queue-type": queue_type}
    )
    queue.bind(connection.channel()).declare()
    bind_queue_to_native_delayed_delivery_exchange(connection, queue, prefix=name)
    return queue


def publish(
    connection: kombu.Connection,
    queue: kombu.Queue,
    seconds: int,
    *,
    body: int | None = None,
    headers: dict[str, Any] | None = None,
) -> None:
    """Publish a message that waits so long, and says so unless it is to say something else."""
    exchange = kombu.Exchange(level_name(MAX_LEVEL, queue.name), "topic", no_declare=True)
    with kombu.Producer(connection) as producer:
        key = calculate_routing_key(seconds, "task")
        content = seconds if body is None else body
        producer.publish(
            content, exchange=exchange, routing_key=key, delivery_mode=2, headers=headers
        )


def receive(
    connection: kombu.Connection, queue: kombu.Queue, count: int, begin: float = 0.0
) -> list[Arrival]:
    """Consume so many messages, and tell when each came, in seconds after `begin`."""
    arrivals: list[Arrival] = []

    def remember(body: Any, message: Any) -> None:  # noqa: ANN401 - kombu has no types
        key = message.delivery_info["routing_key"]
        arrivals.append(Arrival(body, time.monotonic() - begin, key, message.headers))
        message.ack()

    with connection.Consumer(queue, callbacks=[remember]):
        while len(arrivals) < count:
            connection.drain_events(timeout=HANG_SECONDS)
    return arrivals


def test_messages_come_when_their_delay_is_over(
    connection: kombu.Connection, queue: kombu.Queue
) -> None:
    begin = time.monotonic()
    for seconds in (3, 1, 2):
        publish(connection, queue, seconds)
    published_seconds = time.monotonic() - begin
    arrivals = receive(connection, queue, 3, begin)
    bodies = [arrival.body for arrival in arrivals]
    # On a machine that stood still between them the first may well be the first to arrive.
    assert bodies == [1, 2, 3] or (published_seconds >= 1 and sorted(bodies) == [1, 2, 3])
    for arrival in arrivals:
        assert arrival.seconds >= arrival.body
        assert arrival.routing_key == calculate_routing_key(arrival.body, "task")


def test_a_task_that_is_tried_again_waits_again(
    connection: kombu.Connection, queue: kombu.Queue
) -> None:
    """Celery publishes it with the headers that it came with: where it was before is no cycle."""
    headers: dict[str, Any] = {}
    for attempt in range(3):
        publish(connection, queue, 1, body=attempt, headers=headers)
        (arrival,) = receive(connection, queue, 1)
        assert arrival.body == attempt
        headers = arrival.headers
    assert [death["count"] for death in headers["x-death"]] == [3]


def test_a_long_delay_waits_in_the_queue_of_its_highest_bit(
    connection: kombu.Connection, queue: kombu.Queue
) -> None:
    publish(connection, queue, (1 << 27) + 1)
    publish(connection, queue, 1 << 20)
    channel = connection.channel()
    for level, count in ((27, 1), (20, 1), (0, 0)):
        declared = channel.queue_declare(level_name(level, queue.name), passive=True)
        assert declared.message_count == count


def test_a_hundred_messages_of_one_delay_keep_their_order(
    connection: kombu.Connection, queue: kombu.Queue
) -> None:
    for number in range(100):
        publish(connection, queue, 1, body=number)
    arrivals = receive(connection, queue, 100)
    assert [arrival.body for arrival in arrivals] == list(range(100))


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_messages_on_their_way_through_the_levels_survive_a_kill(
    start_server: StartServer, name: str, queue_type: str
) -> None:
    server = start_server()
    server.options += ("--port", str(server.port))
    url = f"amqp://guest:guest@{server.host}:{server.port}/"
    seconds = (1, 2, 3)
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        queue = declare(connection, name, queue_type)
        for number in range(60):
            publish(connection, queue, seconds[number % 3], body=number)
        # Some arrive at the last queue, some are between the levels, some wait.
        channel = connection.channel()
        deadline = time.monotonic() + HANG_SECONDS
        while channel.queue_declare(name, passive=True).message_count == 0:
            assert time.monotonic() < deadline, "nothing arrives"
            time.sleep(0.02)
        server.kill()
    server.restart()
    seen: set[int] = set()  # one may come twice, none may be missing

    def remember(body: int, message: Any) -> None:  # noqa: ANN401 - kombu has no types
        seen.add(body)
        message.ack()

    with kombu.Connection(url) as connection, connection.Consumer(queue, callbacks=[remember]):
        while len(seen) < 60:
            connection.drain_events(timeout=HANG_SECONDS)
