"""A publisher waits a moment for consumers who read as fast as they can; nothing is written then.

The clock of the delay is the test's own, so it does not matter how fast anything really is: one
that stands still waits for ever, one that leaps does not wait at all.
"""

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pamqp.commands import Basic

from amqp_server.broker.queue import Queue
from amqp_server.broker.storing.message_store import MessageStore
from tests.amqp_client import AmqpClient, connect
from tests.threaded_server import ThreadedServer

RING_SIZE = 2048
COUNT = 6 * RING_SIZE
BATCH = 64
TRANSIENT = Basic.Properties(delivery_mode=1)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadedServer]:
    with ThreadedServer(tmp_path, ring_size=RING_SIZE) as running:
        yield running


def stop_clock(server: ThreadedServer) -> None:
    server.server.broker.storage.throttled_queues.clock = lambda: 0.0


def let_clock_leap(server: ThreadedServer) -> None:
    seconds = count()
    server.server.broker.storage.throttled_queues.clock = lambda: float(next(seconds))


def queue_of(server: ThreadedServer, name: str) -> Queue:
    return server.server.broker.vhosts["/"].queues[name]


def store_of(server: ThreadedServer, name: str) -> MessageStore:
    return queue_of(server, name).store


def publish(client: AmqpClient, queue: str, numbers: range) -> None:
    """Publish small transient messages, many at a time."""
    for start in range(numbers.start, numbers.stop, BATCH):
        batch = range(start, min(start + BATCH, numbers.stop))
        client.send_raw(
            b"".join(
                client.publish_octets(Basic.Publish(0, "", queue), b"%d" % number, TRANSIENT)
                for number in batch
            )
        )


def expect_confirmed_up_to(client: AmqpClient, tag: int) -> None:
    """Return when the publish of this number is confirmed."""
    while client.expect(Basic.Ack).delivery_tag != tag:
        pass


def take_all(client: AmqpClient, count: int, *, acknowledge: bool) -> list[int]:
    numbers = []
    for taken in range(1, count + 1):
        message = client.expect_delivery()
        numbers.append(int(message.body))
        if acknowledge and taken % 50 == 0:
            client.send(Basic.Ack(message.tag, multiple=True))
    return numbers


@pytest.mark.parametrize("acknowledge", [False, True], ids=["no-ack", "acks"])
def test_nothing_is_written_while_the_consumer_keeps_up_with_the_publisher(
    server: ThreadedServer, acknowledge: bool
) -> None:
    with connect(server.address) as publisher, connect(server.address) as consumer:
        publisher.open_channel()
        publisher.declare("q", durable=False)
        stop_clock(server)
        consumer.open_channel()
        consumer.consume("q", no_ack=not acknowledge, prefetch=200 if acknowledge else 0)
        thread = threading.Thread(target=publish, args=(publisher, "q", range(COUNT)))
        thread.start()
        assert take_all(consumer, COUNT, acknowledge=acknowledge) == list(range(COUNT))
        thread.join()
        store = store_of(server, "q")
        assert (store.cursor, store.written_end, store.log.log_end_offset) == (COUNT, 0, 0)
        assert not store.log.directory.exists()


def test_a_publisher_does_not_wait_for_a_consumer_without_credit(
    server: ThreadedServer,
) -> None:
    with connect(server.address) as publisher, connect(server.address) as consumer:
        publisher.open_channel(confirms=True)
        publisher.declare("q", durable=False)
        let_clock_leap(server)
        consumer.open_channel()
        consumer.consume("q", prefetch=1)
        publish(publisher, "q", range(COUNT))
        expect_confirmed_up_to(publisher, COUNT)
        server.wait_until(lambda: store_of(server, "q").written_end > COUNT - RING_SIZE)
        assert server.server.broker.storage.throttled_queues.count == 0


def test_a_slow_queue_does_not_delay_publishes_to_other_queues(server: ThreadedServer) -> None:
    """The real clock: the delay ends by itself."""
    with connect(server.address) as publisher, connect(server.address) as consumer:
        publisher.open_channel(confirms=True)
        consumer.open_channel()
        for name in ("slow", "other"):
            publisher.declare(name, durable=False)
            consumer.consume(name, prefetch=1)
        publish(publisher, "slow", range(COUNT))
        publish(publisher, "other", range(COUNT))
        expect_confirmed_up_to(publisher, 2 * COUNT)
        assert {int(consumer.expect_delivery().body) for _ in range(2)} == {0}
        server.wait_until(lambda: store_of(server, "other").cursor == COUNT)


def test_a_client_never_waits_for_its_own_acknowledgements(server: ThreadedServer) -> None:
    with connect(server.address) as client:
        client.open_channel()
        client.declare("q", durable=False)
        client.consume("q", prefetch=10)
        stop_clock(server)
        publish(client, "q", range(COUNT))
        # The last that were read may be held: with them it has sent nothing that must be read.
        server.wait_until(lambda: store_of(server, "q").cursor > COUNT // 2)
        assert store_of(server, "q").written_end > 0
