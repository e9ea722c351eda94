"""Settings of a live queue are replaced: limits, lifetimes, dead letters, durability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pamqp.commands import Basic

from amqp_server.base.config import Durability
from amqp_server.broker.queue import Queue
from amqp_server.broker.queue_settings import Overflow, QueueSettings, QueueType
from appendlog import Compression
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.conformance.polling import eventually
from tests.threaded_server import ThreadedServer

MANY = 3000
"""More messages than are measured at once."""


class Live:
    """A server with a client, and settings of its queue `q` that can be replaced."""

    def __init__(self, server: ThreadedServer, client: AmqpClient) -> None:
        self.server = server
        self.client = client

    @property
    def queue(self) -> Queue:
        return self.server.server.broker.vhosts["/"].queues["q"]

    def change(self, **fields: object) -> None:
        """Replace fields of the settings, on the server's loop."""

        def run() -> None:
            settings = replace(self.queue.settings, **fields)  # type: ignore[arg-type]
            self.server.server.broker.change_settings(
                self.queue, settings, self.queue.storage_settings
            )

        self.server.call(run)

    def publish(self, count: int, body: bytes = b"x") -> None:
        for number in range(count):
            self.client.publish(b"%d-%b" % (number, body), "q", properties=PERSISTENT)
        self.client.expect_confirmed()

    def bodies(self) -> list[bytes]:
        """Take all messages."""
        bodies = []
        while (message := self.client.get("q")) is not None:
            bodies.append(message.body)
        return bodies


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with ThreadedServer(tmp_path / "data") as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q", durable=True)
        yield Live(server, client)


def test_a_shorter_queue_drops_its_oldest_messages_at_once(live: Live) -> None:
    live.publish(10)
    live.change(max_length=3)
    assert eventually(lambda: live.client.ready_count("q") == 3)
    assert live.bodies() == [b"7-x", b"8-x", b"9-x"]


@pytest.mark.parametrize("count", [10, MANY])
def test_a_limit_in_octets_counts_the_messages_that_were_there(live: Live, count: int) -> None:
    live.publish(count, b"y" * 100)
    sizes = [len(b"%d-" % number) + 100 for number in range(count)]
    live.change(max_length_bytes=sum(sizes[-5:]))
    assert eventually(lambda: live.client.ready_count("q") == 5)
    # Once more in the other way: nothing is counted twice.
    live.publish(1, b"z" * 200)
    assert live.client.ready_count("q") == 4
    live.change(max_length_bytes=None)
    live.publish(10)
    assert live.client.ready_count("q") == 14
    assert live.server.call(lambda: live.queue.rules) is None


def test_sizes_are_read_from_the_log_where_the_ring_has_no_messages(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path / "data", ring_size=1024) as server,
        connect(server.address) as client,
    ):
        client.open_channel(confirms=True)
        client.declare("q", durable=True)
        live = Live(server, client)
        live.publish(5000, bytes(1024))
        assert server.call(lambda: live.queue.store.ring.window_start) > 0
        live.change(max_length_bytes=10 * (1024 + 5))
        assert eventually(lambda: client.ready_count("q") == 10)


def test_unacked_messages_count_when_they_return(live: Live) -> None:
    live.publish(4, b"y" * 100)
    message = live.client.get("q", no_ack=False)
    assert message is not None
    live.change(max_length_bytes=3 * 102)
    assert live.client.ready_count("q") == 3
    live.client.send(Basic.Nack(message.tag, requeue=True))
    assert eventually(lambda: live.client.ready_count("q") == 3)
    assert live.bodies() == [b"%d-%b" % (number, b"y" * 100) for number in (1, 2, 3)]


def test_a_full_queue_refuses_and_drops_again(live: Live) -> None:
    live.publish(2)
    live.change(max_length=2, overflow=Overflow.REJECT_PUBLISH)
    live.client.publish(b"refused", "q")
    live.client.expect(Basic.Nack)
    live.change(overflow=Overflow.DROP_HEAD)
    live.client.publish(b"taken", "q")
    live.client.expect(Basic.Ack)
    assert live.bodies() == [b"1-x", b"taken"]


def test_a_lifetime_counts_for_messages_that_come_later(live: Live) -> None:
    live.publish(1)
    live.change(message_ttl_ms=1)
    live.client.publish(b"short", "q")
    live.client.expect(Basic.Ack)
    assert eventually(lambda: live.client.ready_count("q") == 1)
    live.change(message_ttl_ms=None)
    live.publish(1, b"later")
    assert live.bodies() == [b"0-x", b"0-later"]
    assert live.server.call(lambda: live.queue.rules) is None


def test_dead_letters_go_from_the_next_death_and_old_messages_too(live: Live) -> None:
    client = live.client
    client.declare("dead")
    live.publish(3)
    client.send(Basic.Reject(_tag(live), requeue=False))
    live.change(dead_letter_exchange="", dead_letter_routing_key="dead")
    client.send(Basic.Reject(_tag(live), requeue=False))
    assert eventually(lambda: client.ready_count("dead") == 1)
    live.change(dead_letter_exchange=None, dead_letter_routing_key=None)
    client.send(Basic.Reject(_tag(live), requeue=False))
    assert eventually(lambda: live.server.call(lambda: live.queue.forwarder) is None)
    assert client.ready_count("dead") == 1
    assert live.server.call(lambda: live.queue.unacked_count) == 0


def test_an_expiry_counts_from_its_change(live: Live) -> None:
    live.change(expires_ms=3_600_000)
    first = live.server.call(lambda: live.queue.expiry_timer)
    live.change(expires_ms=1)
    assert first is not None
    assert first.is_over
    assert eventually(
        lambda: live.server.call(lambda: "q" not in live.server.server.broker.vhosts["/"].queues)
    )


def test_a_delivery_limit_counts_earlier_requeues(live: Live) -> None:
    live.publish(1)
    for _ in range(3):
        live.client.send(Basic.Nack(_tag(live), requeue=True))
    live.change(type=QueueType.QUORUM, delivery_limit=3)
    live.client.send(Basic.Nack(_tag(live), requeue=True))
    assert eventually(lambda: live.client.ready_count("q") == 0)


def test_durability_compression_and_segments_change_with_the_next_write(live: Live) -> None:
    def change(durability: Durability) -> None:
        kept = replace(
            live.queue.storage_settings,
            durability=durability,
            compression=Compression.ZSTD,
            segment_bytes=128 * 1024,
        )
        live.server.server.broker.change_settings(live.queue, live.queue.settings, kept)

    live.server.call(lambda: change(Durability.NONE))
    live.publish(200, bytes(1000))
    live.server.call(lambda: change(Durability.FSYNC))
    live.publish(1)
    store = live.queue.store
    assert live.server.call(lambda: store.recovery_point == store.end_offset)
    assert live.server.call(lambda: store.log.segments[-1].size_bytes) < 100 * 1000


def test_a_plain_queue_has_no_rules(live: Live) -> None:
    assert live.server.call(lambda: live.queue.rules) is None
    live.change(consumer_timeout_ms=5)
    assert live.server.call(lambda: live.queue.rules) is None
    assert QueueSettings().consumer_timeout_ms is None


def _tag(live: Live) -> int:
    message = eventually(lambda: live.client.get("q", no_ack=False))
    assert message is not None
    return message.tag
