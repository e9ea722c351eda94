"""How fast the generator itself is, against a broker that does nothing.

What a broker reaches is its own figure only while it stays well below these.
"""

import statistics
from dataclasses import dataclass
from typing import Final

from bench.consumer import CONSUME_CHANNEL, ConsumeOrder, consume
from bench.errors import BenchError
from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL, PublishOrder, publish
from bench.stub_broker import StubBroker, encode_deliveries
from bench.worker import Counters
from bench.workers import Workers

_QUEUE: Final = "bench"
_CONSUMED_MESSAGES: Final = 300_000


@dataclass(frozen=True, slots=True)
class Bound:
    """What one side of the generator reaches alone.

    Attributes:
        messages_per_second: Messages sent or counted a second.
        cpu_seconds_per_million: CPU that it takes for a million.
    """

    messages_per_second: float
    cpu_seconds_per_million: float


def measure_publisher(seconds: float, body_bytes: int) -> Bound:
    """Publish into a sink.

    Args:
        seconds: How long.
        body_bytes: Size of each body.

    Raises:
        BenchError: The sink swallowed other than was sent, or the publisher failed.
    """
    with StubBroker() as sink, Workers(_look_nowhere) as workers:
        order = PublishOrder(sink.url, _QUEUE, body_bytes=body_bytes, seconds=seconds)
        publisher = workers.start(publish, order, Counters())
        publisher.go()
        sent = workers.wait_for(publisher)
        sent_bytes = sent.published * order.encode_block(None).message_bytes
        if sink.swallowed_bytes != sent_bytes:
            raise BenchError(f"the sink swallowed {sink.swallowed_bytes} of {sent_bytes} bytes")
    elapsed_seconds = (sent.end_ns - sent.start_ns) / 1e9
    return Bound(sent.published / elapsed_seconds, sent.cpu_seconds * 1e6 / sent.published)


def measure_consumer(runs: int, body_bytes: int) -> Bound:
    """Count deliveries from memory, without acks; the median of several short runs.

    Args:
        runs: How many, from 1.
        body_bytes: Size of each body.

    Raises:
        BenchError: The consumer counted other than was sent, or failed.
    """
    block = PublishBlock(PUBLISH_CHANNEL, _QUEUE, body_bytes=body_bytes)
    block_messages = block.block_messages
    deliveries = encode_deliveries(
        _CONSUMED_MESSAGES,
        block_messages,
        channel=CONSUME_CHANNEL,
        routing_key=_QUEUE,
        body_bytes=body_bytes,
    )
    bounds = []
    with StubBroker(deliveries) as source, Workers(_look_nowhere) as workers:
        for _ in range(runs):
            counters = Counters()
            counters.expected.value = _CONSUMED_MESSAGES
            order = ConsumeOrder(source.url, _QUEUE, block_messages)
            consumer = workers.start(consume, order, counters)
            consumer.go()
            seen = workers.wait_for(consumer)
            if seen.received != _CONSUMED_MESSAGES:
                raise BenchError(f"counted {seen.received} of {_CONSUMED_MESSAGES} deliveries")
            elapsed_seconds = (seen.end_ns - seen.start_ns) / 1e9
            bounds.append(
                Bound(
                    seen.received / elapsed_seconds,
                    seen.cpu_seconds * 1e6 / seen.received,
                )
            )
    return Bound(
        statistics.median(bound.messages_per_second for bound in bounds),
        statistics.median(bound.cpu_seconds_per_million for bound in bounds),
    )


def _look_nowhere() -> None:
    return
