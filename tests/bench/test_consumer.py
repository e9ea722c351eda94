"""Counting deliveries by their bytes, from a stub broker that sends what a test wants."""

import pytest

from bench import consumer
from bench.connection import Connection
from bench.consumer import CONSUME_CHANNEL, ConsumeOrder, DeliveryCounter
from bench.errors import BrokenRhythmError
from bench.stub_broker import StubBroker, encode_deliveries
from bench.worker import Counters

BLOCK_MESSAGES = 10


def encode(count: int) -> bytes:
    return encode_deliveries(
        count, BLOCK_MESSAGES, channel=CONSUME_CHANNEL, routing_key="bench", body_bytes=128
    )


def count_deliveries(
    deliveries: bytes, expected: int, *, reads_latency: bool = False
) -> DeliveryCounter:
    """Let a counter consume these bytes."""
    with StubBroker(deliveries) as stub, Connection(stub.url, CONSUME_CHANNEL) as connection:
        counters = Counters()
        counters.expected.value = expected
        order = ConsumeOrder(
            stub.url,
            "bench",
            BLOCK_MESSAGES,
            prefetch=1000,
            ack_every=100,
            reads_latency=reads_latency,
        )
        connection.start_consumer(order.queue, order.prefetch)
        counter = DeliveryCounter(connection, order, counters)
        counter.run()
        connection.close()
        return counter


@pytest.mark.parametrize("reads_latency", [False, True])
@pytest.mark.parametrize("count", [1, 99, 25_000])
def test_every_delivery_is_counted(count: int, reads_latency: bool) -> None:
    counter = count_deliveries(encode(count), count, reads_latency=reads_latency)

    assert counter.received == count
    assert len(counter.latencies_ns) == (count if reads_latency else 0)


@pytest.mark.parametrize("reads_latency", [False, True])
def test_a_message_that_is_missing_in_the_middle_is_noticed(reads_latency: bool) -> None:
    whole = encode(500)
    delivery_bytes = len(encode(1))
    gap_start = 200 * delivery_bytes
    deliveries = whole[:gap_start] + whole[gap_start + delivery_bytes :]

    with pytest.raises(BrokenRhythmError):
        count_deliveries(deliveries, 499, reads_latency=reads_latency)


@pytest.mark.parametrize("reads_latency", [False, True])
def test_a_message_that_comes_twice_is_noticed(reads_latency: bool) -> None:
    whole = encode(500)
    again = 200 * len(encode(1))

    with pytest.raises(BrokenRhythmError):
        count_deliveries(
            whole[:again] + whole[again - len(encode(1)) :], 501, reads_latency=reads_latency
        )


def test_messages_missing_at_the_end_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "IDLE_SECONDS_MAX", 0.05)

    assert count_deliveries(encode(300), 301).received == 300


def test_a_queue_that_delivers_nothing_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "IDLE_SECONDS_MAX", 0.05)

    assert count_deliveries(b"", 1).received == 0


def test_half_a_delivery_at_the_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "IDLE_SECONDS_MAX", 0.05)

    with pytest.raises(BrokenRhythmError, match="100 bytes of a delivery at the end"):
        count_deliveries(encode(300) + encode(1)[:100], 301)
