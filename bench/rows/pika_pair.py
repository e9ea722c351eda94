"""A publisher and a consumer of pika, Python's most used client, unmodified."""

import struct
import time
from array import array
from typing import TYPE_CHECKING, Final

from bench.broker_url import BrokerUrl
from bench.consumer import IDLE_SECONDS_MAX, ConsumeOrder, ConsumeResult
from bench.errors import BrokenRhythmError
from bench.publisher import PublishOrder, PublishResult
from bench.table.experiment import Experiment, Row
from bench.table.workload_run import WorkloadRun
from bench.worker import UNKNOWN, Counters, StartLine
from bench.workloads import Client, Workload

if TYPE_CHECKING:
    import pika
    from pika.adapters.blocking_connection import BlockingChannel

_NUMBER: Final = struct.Struct(">Q")
_LOOK_SECONDS: Final = 0.05


def pika_publish(start_line: StartLine, order: PublishOrder, counters: Counters) -> PublishResult:
    """Publish numbered messages for some seconds, in a process of its own."""
    connection = _connect(order.url)
    channel = connection.channel(1)
    rest = bytes(order.body_bytes - _NUMBER.size)
    number = 0
    start_line.wait()
    start_ns = time.monotonic_ns()
    end = time.monotonic() + order.seconds
    while time.monotonic() < end:
        channel.basic_publish("", order.queue, _NUMBER.pack(number) + rest)
        number += 1
    end_ns = time.monotonic_ns()
    counters.published.value = number
    channel.close()  # the broker answers after it has handled all publishes
    connection.close()
    return PublishResult(number, number, 0, start_ns, end_ns, start_line.cpu_seconds())


class PikaConsumer:
    """Counts and acknowledges messages, each checked to be the next.

    Attributes:
        received: Messages so far.
        end_ns: CLOCK_MONOTONIC at the last message; 0 if there was none.
    """

    def __init__(self) -> None:
        self.received = 0
        self.end_ns = 0

    def take(
        self,
        channel: "BlockingChannel",
        method: "pika.spec.Basic.Deliver",
        _properties: "pika.BasicProperties",
        body: bytes,
    ) -> None:
        """Count and acknowledge a delivery.

        Raises:
            BrokenRhythmError: The message is not the next one.
        """
        (number,) = _NUMBER.unpack_from(body)
        if number != self.received:
            raise BrokenRhythmError(self.received, f"message {number}")
        self.received += 1
        self.end_ns = time.monotonic_ns()
        channel.basic_ack(method.delivery_tag)


def pika_consume(start_line: StartLine, order: ConsumeOrder, counters: Counters) -> ConsumeResult:
    """Consume until `counters.expected` messages are received, in a process of its own.

    Raises:
        BrokenRhythmError: A message was lost, repeated or out of order.
    """
    connection = _connect(order.url)
    channel = connection.channel(7)
    channel.basic_qos(prefetch_count=order.prefetch)
    consumer = PikaConsumer()
    channel.basic_consume(order.queues[0], consumer.take)
    start_line.wait()
    start_ns = moved_ns = time.monotonic_ns()
    while not _is_over(consumer, moved_ns, counters):
        before = consumer.received
        connection.process_data_events(time_limit=_LOOK_SECONDS)
        if consumer.received > before:
            moved_ns = time.monotonic_ns()
    cpu_seconds = start_line.cpu_seconds()
    channel.close()
    connection.close()
    received = (consumer.received,)
    return ConsumeResult(
        received, consumer.received, start_ns, consumer.end_ns, cpu_seconds, array("q")
    )


def _is_over(consumer: PikaConsumer, moved_ns: int, counters: Counters) -> bool:
    expected: int = counters.expected.value
    idle_seconds = (time.monotonic_ns() - moved_ns) / 1e9
    return expected != UNKNOWN and (
        consumer.received >= expected or idle_seconds > IDLE_SECONDS_MAX
    )


def _connect(url: BrokerUrl) -> "pika.BlockingConnection":
    # Only this row needs pika: the table works without it.
    import pika

    credentials = pika.PlainCredentials(url.user, url.password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(url.host, url.port, url.vhost, credentials)
    )


EXPERIMENTS: Final = (
    Experiment(
        "pika",
        (
            Row(
                "pika",
                "pika, blocking publisher and consumer, an ack for each message, prefetch 1000, "
                "alike messages of 128 B",
                "msg/s",
                ratio_bar=1.3,
            ),
        ),
        WorkloadRun(
            Workload(prefetch=1000, client=Client(pika_publish, pika_consume)),
            lambda measured: {"pika": measured.consumed_per_second},
            seconds_max=3,
        ),
        seconds=6,
        rabbitmq_seconds=7,
    ),
)
