"""A publisher and a consumer of Python's most used client, pika, as it is: end to end."""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.broker_url import BrokerUrl
from bench.consumer import IDLE_SECONDS_MAX
from bench.errors import BrokenRhythmError
from bench.process_stats import ServerProbe
from bench.rows.effort import Effort
from bench.rows.experiment import Experiment, Findings
from bench.rows.flow import clean_queues
from bench.rows.row import Row
from bench.startable_broker import StartableBroker
from bench.worker import UNKNOWN, Counters, StartLine
from bench.workers import Workers

if TYPE_CHECKING:
    import pika
    from pika.adapters.blocking_connection import BlockingChannel

ROW: Final = Row(
    "pika",
    "pika, blocking publisher and consumer, an ack for each message, prefetch 1000, 128 B",
    "msg/s",
    ratio_bar=1.3,
)

_QUEUE: Final = "bench"
_BODY_BYTES: Final = 128
_NUMBER_BYTES: Final = 8
_PREFETCH: Final = 1000
_LOOK_SECONDS: Final = 0.05
_SECONDS_MAX: Final = 3.0


@dataclass(frozen=True, slots=True)
class PikaResult:
    """What one side did.

    Attributes:
        messages: How many.
        start_ns: CLOCK_MONOTONIC before the first.
        end_ns: CLOCK_MONOTONIC at the last.
        cpu_seconds: CPU that it used.
    """

    messages: int
    start_ns: int
    end_ns: int
    cpu_seconds: float


def pika_publish(start_line: StartLine, url: BrokerUrl, seconds: float) -> PikaResult:
    """Publish for some seconds, numbered messages; in a process of its own."""
    connection = _connect(url)
    channel = connection.channel(1)
    rest = bytes(_BODY_BYTES - _NUMBER_BYTES)
    number = 0
    start_line.wait()
    start_ns = time.monotonic_ns()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        channel.basic_publish("", _QUEUE, number.to_bytes(_NUMBER_BYTES) + rest)
        number += 1
    end_ns = time.monotonic_ns()
    channel.close()  # answered when the broker has handled all
    connection.close()
    return PikaResult(number, start_ns, end_ns, start_line.cpu_seconds())


class PikaConsumer:
    """Counts and acknowledges messages, each checked to be the next.

    Attributes:
        received: How many so far.
        end_ns: CLOCK_MONOTONIC at the last.
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
        """Take a delivery.

        Raises:
            BrokenRhythmError: It is not the next.
        """
        number = int.from_bytes(body[:_NUMBER_BYTES])
        if number != self.received:
            raise BrokenRhythmError(self.received, f"message {number}")
        self.received += 1
        self.end_ns = time.monotonic_ns()
        channel.basic_ack(method.delivery_tag)


def pika_consume(start_line: StartLine, url: BrokerUrl, counters: Counters) -> PikaResult:
    """Consume until `counters.expected` are received; in a process of its own.

    Raises:
        BrokenRhythmError: A message was lost, repeated or out of order.
    """
    connection = _connect(url)
    channel = connection.channel(7)
    channel.basic_qos(prefetch_count=_PREFETCH)
    consumer = PikaConsumer()
    channel.basic_consume(_QUEUE, consumer.take)
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
    return PikaResult(consumer.received, start_ns, consumer.end_ns, cpu_seconds)


def _is_over(consumer: PikaConsumer, moved_ns: int, counters: Counters) -> bool:
    expected: int = counters.expected.value
    idle_seconds = (time.monotonic_ns() - moved_ns) / 1e9
    return expected != UNKNOWN and (
        consumer.received >= expected or idle_seconds > IDLE_SECONDS_MAX
    )


def _connect(url: BrokerUrl) -> "pika.BlockingConnection":
    import pika

    credentials = pika.PlainCredentials(url.user, url.password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(url.host, url.port, url.vhost, credentials)
    )


def measure_pika(broker: StartableBroker, effort: Effort) -> Findings:
    """Run it once; as `Experiment.run`."""
    running = broker.running()
    counters = Counters()
    with clean_queues(running.url, [_QUEUE]) as declaring:
        probe = ServerProbe(running.pid)
        with Workers(probe.sample) as workers:
            consumer = workers.start(pika_consume, running.url, counters)
            publisher = workers.start(pika_publish, running.url, min(effort.seconds, _SECONDS_MAX))
            probe.start()
            consumer.go()
            publisher.go()
            sent = workers.wait_for(publisher)
            counters.expected.value = sent.messages
            seen = workers.wait_for(consumer)
        others_cores = probe.others_cores(sent.cpu_seconds + seen.cpu_seconds)
        lost = abs(sent.messages - seen.messages) + declaring.count_ready(_QUEUE)
    rate = seen.messages * 1e9 / max(1, seen.end_ns - sent.start_ns)
    details = {
        "published": sent.messages,
        "received": seen.messages,
        "published_per_second": sent.messages * 1e9 / (sent.end_ns - sent.start_ns),
        "server_cpu_seconds": probe.cpu_seconds(),
    }
    return Findings({ROW.key: rate}, lost, others_cores, details)


PIKA: Final = Experiment("pika", (ROW,), measure_pika, seconds=6, rabbitmq_seconds=7)
