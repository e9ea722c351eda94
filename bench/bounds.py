"""Speed of the generator itself, against a broker that does nothing.

A broker's figure is its own only if it is well below these bounds.
"""

import statistics
from dataclasses import dataclass
from typing import Final

from bench.consumer import ConsumeOrder, consume
from bench.delivery_counter import CONSUME_CHANNEL
from bench.errors import BenchError
from bench.process_stats import ServerProbe
from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL, PublishOrder, publish
from bench.stub_broker import StubBroker, encode_deliveries
from bench.worker import Counters
from bench.workers import run_alone
from bench.workloads import QUEUE

_CONSUMED_MESSAGES: Final = 300_000


@dataclass(frozen=True, slots=True)
class Bound:
    """Speed of one side of the generator.

    Attributes:
        messages_per_second: Messages sent or counted a second.
        cpu_seconds_per_million: CPU that a million messages take.
    """

    messages_per_second: float
    cpu_seconds_per_million: float


def measure_publisher(seconds: float, body_bytes: int) -> Bound:
    """Publish to a stub that discards everything.

    Args:
        seconds: How long to publish.
        body_bytes: Size of each body.

    Raises:
        BenchError: The stub did not get the bytes that were sent, or the publisher failed.
    """
    with StubBroker() as sink:
        order = PublishOrder(sink.url, QUEUE, body_bytes=body_bytes, seconds=seconds)
        sent = run_alone(ServerProbe(None), publish, order, Counters())
        sent_bytes = sent.published * order.encode_block(None).message_bytes
        if sink.swallowed_bytes != sent_bytes:
            raise BenchError(f"the stub got {sink.swallowed_bytes} of {sent_bytes} bytes")
    elapsed_seconds = (sent.end_ns - sent.start_ns) / 1e9
    return Bound(sent.published / elapsed_seconds, sent.cpu_seconds * 1e6 / sent.published)


def measure_consumer(runs: int, body_bytes: int) -> Bound:
    """Count deliveries that a stub sends from memory, without acks; median of several short runs.

    Args:
        runs: Number of runs, from 1.
        body_bytes: Size of each body.

    Raises:
        BenchError: The consumer did not count all deliveries, or failed.
    """
    block = PublishBlock(PUBLISH_CHANNEL, QUEUE, body_bytes=body_bytes)
    block_messages = block.block_messages
    deliveries = encode_deliveries(
        _CONSUMED_MESSAGES,
        block_messages,
        channel=CONSUME_CHANNEL,
        routing_key=QUEUE,
        body_bytes=body_bytes,
    )
    bounds = []
    with StubBroker(deliveries) as source:
        for _ in range(runs):
            counters = Counters()
            counters.expected.value = _CONSUMED_MESSAGES
            order = ConsumeOrder(source.url, (QUEUE,), block_messages)
            seen = run_alone(ServerProbe(None), consume, order, counters)
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
