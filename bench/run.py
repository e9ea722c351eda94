"""Runs one workload against one broker: two worker processes, empty queues, one measurement."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.consumer import ConsumeOrder, ConsumeResult, consume
from bench.latency import LatencySummary
from bench.measurement import Measurement
from bench.process_stats import ServerProbe
from bench.publisher import PUBLISH_CHANNEL, PublishOrder, PublishResult
from bench.publishers import PublishersOrder, publish_side_by_side
from bench.running_broker import RunningBroker
from bench.worker import Counters, Worker
from bench.workers import Workers
from bench.workloads import Kind, Scale, Workload

_MARKS: Final = (0.25, 0.95)
"""Parts of the time of `Kind.PAIRS` between which all of its publishers are publishing."""

Watch = Callable[[Counters], None]
"""Called ten times a second while publishers and consumers work."""


def run_workload(
    broker: RunningBroker, workload: Workload, *scales: Scale, watch: Watch | None = None
) -> Measurement:
    """Run a workload on empty queues that are deleted afterwards, and return its last measurement.

    Args:
        broker: The broker; no other client should use it.
        workload: What to run.
        scales: How much of it, run by run on the same queues: a warm-up, the measured run.
        watch: Called ten times a second while publishers and consumers work.

    Raises:
        OSError: The broker cannot be reached, or went away.
        BenchError: The broker broke the protocol or the order of messages, or a worker failed.
    """
    queues, exchange = workload.queues, workload.exchange
    with (
        empty_queues(broker.url, queues, durable=workload.is_durable) as connection,
        exchange.declared(connection) if exchange else nullcontext(),
    ):
        for scale in scales:
            measurement = _Run(broker, connection, workload, scale).measure(watch)
    return measurement


@contextmanager
def empty_queues(
    url: BrokerUrl, queues: Sequence[str], *, durable: bool = False
) -> Iterator[Connection]:
    """Declare empty queues and return the connection; delete them at the end of the `with`.

    Args:
        url: The broker.
        queues: Names of the queues; existing queues with these names are deleted first.
        durable: Whether the queues are durable.

    Raises:
        OSError: The broker cannot be reached.
        BenchError: The broker refuses.
    """
    with Connection(url, PUBLISH_CHANNEL) as connection:
        for queue in queues:
            connection.delete_queue(queue)
            connection.declare_queue(queue, durable)
        yield connection
        for queue in queues:
            connection.delete_queue(queue)
        connection.close()


class _Run:
    """One run of a workload on existing queues."""

    def __init__(
        self, broker: RunningBroker, connection: Connection, workload: Workload, scale: Scale
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._workload = workload
        self._scale = scale
        self._counters = Counters()
        self._probe = ServerProbe(broker.pid)

    def measure(self, watch: Watch | None) -> Measurement:
        def look() -> None:
            self._probe.sample()
            if watch:
                watch(self._counters)

        rss_anon_bytes = None
        with Workers(look) as workers:
            # Connected before the server's CPU is counted; a backlog has no consumer yet.
            consumer = None if self._is_backlog else self._start_consumer(workers)
            publisher = self._start_publisher(workers)
            self._probe.start()
            if consumer:
                consumer.go()
            publisher.go()
            sent = workers.wait_for(publisher)
            if self._is_backlog:
                rss_anon_bytes = self._probe.rss_anon_bytes()
            self._counters.expected.value = sent.confirmed * self._workload.copies
            if consumer is None:
                consumer = self._start_consumer(workers)
                consumer.go()
            seen = workers.wait_for(consumer)
        return self._to_measurement(sent, seen, rss_anon_bytes)

    @property
    def _is_backlog(self) -> bool:
        return self._workload.kind == Kind.BACKLOG

    @property
    def _is_latency(self) -> bool:
        return self._workload.kind == Kind.LATENCY

    @property
    def _has_several_publishers(self) -> bool:
        return self._workload.kind in (Kind.PAIRS, Kind.SOAK)

    @property
    def _queues(self) -> tuple[str, ...]:
        """The queue of each consumer."""
        is_shared = self._workload.kind == Kind.SOAK
        return self._workload.queues * (self._scale.soak_connections if is_shared else 1)

    def _start_publisher(self, workers: Workers) -> Worker[PublishResult]:
        if self._has_several_publishers:
            return workers.start(publish_side_by_side, self._publishers_order(), self._counters)
        return workers.start(self._workload.client.publish, self._publish_order(), self._counters)

    def _start_consumer(self, workers: Workers) -> Worker[ConsumeResult]:
        function = consume if self._has_several_publishers else self._workload.client.consume
        return workers.start(function, self._consume_order(), self._counters)

    def _publish_order(self) -> PublishOrder:
        workload, scale = self._workload, self._scale
        count = scale.backlog_count if self._is_backlog else scale.count
        return PublishOrder(
            self._broker.url,
            "" if workload.exchange else workload.queues[0],
            body_bytes=scale.body_bytes,
            persistent=workload.is_durable,
            count=None if self._is_latency else count,
            seconds=scale.seconds,
            confirm_window=workload.confirm_window,
            rate_per_second=scale.rate_per_second if self._is_latency else 0,
            exchange=workload.exchange.name if workload.exchange else "",
            routing_keys=workload.routing_keys,
        )

    def _publishers_order(self) -> PublishersOrder:
        is_soak = self._workload.kind == Kind.SOAK
        seconds = self._scale.soak_seconds if is_soak else self._scale.seconds
        return PublishersOrder(self._broker.url, self._queues, self._scale.body_bytes, seconds)

    def _consume_order(self) -> ConsumeOrder:
        workload, seconds = self._workload, self._scale.seconds
        order = self._publishers_order() if self._has_several_publishers else self._publish_order()
        return ConsumeOrder(
            self._broker.url,
            self._queues,
            block_messages=order.block_messages,
            prefetch=workload.prefetch,
            ack_every=workload.ack_every,
            is_timed=self._is_latency,
            publishers=self._scale.soak_connections if workload.kind == Kind.SOAK else 1,
            read_bytes_least=workload.read_bytes_least,
            marks_seconds=(
                tuple(seconds * mark for mark in _MARKS) if workload.kind == Kind.PAIRS else ()
            ),
        )

    def _to_measurement(
        self, sent: PublishResult, seen: ConsumeResult, rss_anon_bytes_backlog: int | None
    ) -> Measurement:
        server_cpu_seconds = self._probe.cpu_seconds()
        others_cores = self._probe.others_cores(sent.cpu_seconds + seen.cpu_seconds)
        publish_seconds = (sent.end_ns - sent.start_ns) / 1e9
        consume_start_ns = seen.start_ns if self._is_backlog else sent.start_ns
        consume_seconds = max(0, seen.end_ns - consume_start_ns) / 1e9
        copies = self._workload.copies
        missing = sent.confirmed * copies - seen.distinct
        surplus = seen.distinct - sent.published * copies
        repeated = seen.received - seen.distinct
        ready = sum(self._connection.count_ready(queue) for queue in self._workload.queues)
        return Measurement(
            published=sent.published,
            confirmed=sent.confirmed,
            nacked=sent.nacked,
            received=seen.received,
            lost=max(0, missing, surplus) + repeated + ready,
            publish_seconds=publish_seconds,
            consume_seconds=consume_seconds,
            wall_seconds=(
                publish_seconds + consume_seconds
                if self._is_backlog
                else max(publish_seconds, consume_seconds)
            ),
            server_cpu_seconds=server_cpu_seconds,
            publisher_cpu_seconds=sent.cpu_seconds,
            consumer_cpu_seconds=seen.cpu_seconds,
            others_cores=others_cores,
            peak_rss_bytes=self._probe.peak_rss_bytes(),
            rss_anon_bytes_max=self._probe.rss_anon_bytes_max,
            rss_anon_bytes_backlog=rss_anon_bytes_backlog,
            latency=LatencySummary.of(seen.latencies_ns),
            confirm_latency=LatencySummary.of(sent.confirm_latencies_ns),
            late_seconds_max=sent.late_ns_max / 1e9 if self._is_latency else None,
            received_of_each=seen.received_of_each,
            passed_of_each=passed_between_marks(seen),
        )


def passed_between_marks(seen: ConsumeResult) -> tuple[int, ...]:
    """Return the deliveries of each queue while all publishers were publishing.

    The consumers count them: bytes that a publisher's socket took may still be in the kernel. Its
    buffers grow by megabytes, for one connection and not for the other.

    Returns:
        Nothing if the run ended before both marks, as a short warm-up may.
    """
    if len(seen.received_at) < len(_MARKS):
        return ()
    start, end = seen.received_at
    return tuple(after - before for before, after in zip(start, end, strict=True))
