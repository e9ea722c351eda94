"""Runs one workload against one broker: two worker processes, a clean queue, one measurement."""

from collections.abc import Callable
from typing import Final

from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.consumer import ConsumeOrder, consume
from bench.latency import LatencySummary
from bench.measurement import Measurement
from bench.process_stats import ServerProbe
from bench.progress import Progress, ProgressWatch
from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL, PublishOrder, PublishResult, publish
from bench.soak_consumer import SoakConsumeOrder, soak_consume
from bench.soak_publisher import SoakPublishOrder, soak_publish
from bench.worker import Counters
from bench.workers import Workers
from bench.workloads import Kind, Scale, Workload

QUEUE: Final = "bench"


def run_workload(
    url: BrokerUrl,
    pid: int | None,
    workload: Workload,
    scale: Scale,
    progress: Progress | None = None,
    look: Callable[[Counters], None] | None = None,
) -> Measurement:
    """Run a workload once, on a queue of its own that is gone afterwards.

    Args:
        url: The broker; nothing else should be using it.
        pid: Its process, to measure it; None when it is not on this machine.
        workload: What to run.
        scale: How much of it.
        progress: Told how the soak goes.
        look: Called about ten times a second while publisher and consumer work at once.

    Raises:
        OSError: The broker cannot be reached, or went away.
        BenchError: It broke the protocol, lost the order of messages, or a worker failed.
    """
    with Connection(url, PUBLISH_CHANNEL) as connection:
        connection.delete_queue(QUEUE)
        connection.declare_queue(QUEUE, durable=workload.is_durable)
        run = _Run(url, connection, pid, workload, scale)
        if workload.kind == Kind.SOAK:
            measurement = run.soak(progress)
        elif workload.kind == Kind.BACKLOG:
            measurement = run.backlog()
        else:
            measurement = run.both_directions(look)
        connection.delete_queue(QUEUE)
        connection.close()
        return measurement


class _Run:
    """One run, and what its kinds share."""

    def __init__(
        self,
        url: BrokerUrl,
        connection: Connection,
        pid: int | None,
        workload: Workload,
        scale: Scale,
    ) -> None:
        self._url = url
        self._connection = connection
        self._workload = workload
        self._scale = scale
        self._counters = Counters()
        self._probe = ServerProbe(pid)

    def both_directions(self, look: Callable[[Counters], None] | None) -> Measurement:
        """Publish and consume at once, as fast as it goes or at a fixed rate."""

        def look_at_all() -> None:
            self._probe.sample()
            if look:
                look(self._counters)

        publish_order = self._publish_order()
        consume_order = self._consume_order(publish_order)
        with Workers(look_at_all) as workers:
            consumer = workers.start(consume, consume_order, self._counters)
            publisher = workers.start(publish, publish_order, self._counters)
            self._probe.start()
            consumer.go()
            publisher.go()
            sent = workers.wait_for(publisher)
            self._counters.expected.value = sent.confirmed
            seen = workers.wait_for(consumer)
        return self._measure(
            sent,
            received=seen.received,
            distinct=seen.received,
            consume_ns=seen.end_ns - sent.start_ns,
            consumer_cpu_seconds=seen.cpu_seconds,
            latency=LatencySummary.of(seen.latencies_ns),
            confirm_latency=LatencySummary.of(sent.confirm_latencies_ns),
            late_seconds_max=sent.late_ns_max / 1e9 if publish_order.rate_per_second else None,
        )

    def backlog(self) -> Measurement:
        """Publish all, look at the memory, then consume all."""
        publish_order = self._publish_order()
        with Workers(self._probe.sample) as workers:
            publisher = workers.start(publish, publish_order, self._counters)
            self._probe.start()
            publisher.go()
            sent = workers.wait_for(publisher)
            rss_anon_bytes = self._probe.rss_anon_bytes()
            self._counters.expected.value = sent.confirmed
            consumer = workers.start(consume, self._consume_order(publish_order), self._counters)
            consumer.go()
            seen = workers.wait_for(consumer)
        return self._measure(
            sent,
            received=seen.received,
            distinct=seen.received,
            consume_ns=seen.end_ns - seen.start_ns,
            consumer_cpu_seconds=seen.cpu_seconds,
            rss_anon_bytes_backlog=rss_anon_bytes,
        )

    def soak(self, progress: Progress | None) -> Measurement:
        """Publish and consume over many connections, and look at the progress each second."""
        watch = ProgressWatch(self._counters, progress)

        def look() -> None:
            self._probe.sample()
            watch.look()

        with Workers(look) as workers:
            consumer = workers.start(soak_consume, self._soak_consume_order(), self._counters)
            publisher = workers.start(soak_publish, self._soak_publish_order(), self._counters)
            watch.start()
            self._probe.start()
            consumer.go()
            publisher.go()
            sent = workers.wait_for(publisher)
            self._counters.expected.value = sent.confirmed
            seen = workers.wait_for(consumer)
        return self._measure(
            sent,
            received=seen.received,
            distinct=seen.distinct,
            consume_ns=seen.end_ns - sent.start_ns,
            consumer_cpu_seconds=seen.cpu_seconds,
            stalled_seconds=watch.stalled_seconds,
        )

    def _publish_order(self) -> PublishOrder:
        workload, scale = self._workload, self._scale
        is_latency = workload.kind == Kind.LATENCY
        count = scale.backlog_count if workload.kind == Kind.BACKLOG else scale.count
        return PublishOrder(
            self._url,
            QUEUE,
            body_bytes=scale.body_bytes,
            persistent=workload.is_durable,
            count=None if is_latency else count,
            seconds=scale.seconds,
            confirm_window=workload.confirm_window,
            rate_per_second=scale.rate_per_second if is_latency else 0,
        )

    def _consume_order(self, publish_order: PublishOrder) -> ConsumeOrder:
        return ConsumeOrder(
            self._url,
            QUEUE,
            block_messages=publish_order.block_messages,
            prefetch=self._workload.prefetch,
            ack_every=self._workload.ack_every,
            reads_latency=self._workload.kind == Kind.LATENCY,
        )

    def _soak_publish_order(self) -> SoakPublishOrder:
        return SoakPublishOrder(
            self._url,
            QUEUE,
            body_bytes=self._scale.body_bytes,
            seconds=self._scale.soak_seconds,
            publishers=self._scale.soak_connections,
        )

    def _soak_consume_order(self) -> SoakConsumeOrder:
        block = PublishBlock(PUBLISH_CHANNEL, QUEUE, body_bytes=self._scale.body_bytes)
        return SoakConsumeOrder(
            self._url,
            QUEUE,
            block_messages=block.block_messages,
            publishers=self._scale.soak_connections,
            consumers=self._scale.soak_connections,
            prefetch=self._workload.prefetch,
            ack_every=self._workload.ack_every,
        )

    def _measure(
        self,
        sent: PublishResult,
        *,
        received: int,
        distinct: int,
        consume_ns: int,
        consumer_cpu_seconds: float,
        rss_anon_bytes_backlog: int | None = None,
        latency: LatencySummary | None = None,
        confirm_latency: LatencySummary | None = None,
        late_seconds_max: float | None = None,
        stalled_seconds: int | None = None,
    ) -> Measurement:
        server_cpu_seconds = self._probe.cpu_seconds()
        generator_cpu_seconds = sent.cpu_seconds + consumer_cpu_seconds
        others_cores = self._probe.others_cores(generator_cpu_seconds)
        publish_seconds = (sent.end_ns - sent.start_ns) / 1e9
        consume_seconds = max(0, consume_ns) / 1e9
        is_backlog = self._workload.kind == Kind.BACKLOG
        still_there = self._connection.count_ready(QUEUE)
        return Measurement(
            published=sent.published,
            confirmed=sent.confirmed,
            nacked=sent.nacked,
            received=received,
            lost=max(0, sent.confirmed - distinct) + (received - distinct) + still_there,
            publish_seconds=publish_seconds,
            consume_seconds=consume_seconds,
            wall_seconds=(
                publish_seconds + consume_seconds
                if is_backlog
                else max(publish_seconds, consume_seconds)
            ),
            server_cpu_seconds=server_cpu_seconds,
            generator_cpu_seconds=generator_cpu_seconds,
            others_cores=others_cores,
            peak_rss_bytes=self._probe.peak_rss_bytes(),
            rss_anon_bytes_max=self._probe.rss_anon_bytes_max,
            rss_anon_bytes_backlog=rss_anon_bytes_backlog,
            latency=latency,
            confirm_latency=confirm_latency,
            late_seconds_max=late_seconds_max,
            stalled_seconds=stalled_seconds,
        )
