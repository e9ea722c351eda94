"""One phase: the AMQP load alone, or beside the HTTP clients."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.errors import BenchError
from bench.latency import LatencySummary
from bench.management.http_clients import HttpOrder, ask_http
from bench.management.load import LoadOrder, consume_spread, publish_spread
from bench.management.managed_server import ManagedServer
from bench.process_stats import ServerProbe
from bench.worker import Counters
from bench.workers import Workers


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """Figures of one phase.

    Attributes:
        has_clients: Whether HTTP clients asked.
        published: Messages that were published, each of them confirmed.
        lost: Messages that were published and never came.
        repeated: Deliveries of a message that had come before.
        confirms: Times from the moment when messages were due to their confirms.
        broker_cpu_seconds: CPU of the broker alone.
        broker_rss_bytes: Largest RssAnon of the broker: mapped files do not count.
        management_cpu_seconds: CPU of the management server.
        management_rss_bytes: Largest resident memory of the management server, with its files.
        seconds: How long the phase took.
        others_cores: Cores that other programs kept busy; None if unknown.
        http: Latencies of the HTTP requests, by kind of request.
        http_requests: Number of answers, by kind of request.
    """

    has_clients: bool
    published: int
    lost: int
    repeated: int
    confirms: LatencySummary
    broker_cpu_seconds: float
    broker_rss_bytes: int
    management_cpu_seconds: float
    management_rss_bytes: int
    seconds: float
    others_cores: float | None
    http: Mapping[str, LatencySummary]
    http_requests: Mapping[str, int]

    @property
    def broker_cpu_microseconds(self) -> float:
        """CPU of the broker for one message, in microseconds."""
        return self.broker_cpu_seconds / self.published * 1e6


def run_phase(server: ManagedServer, load: LoadOrder, http: HttpOrder | None) -> PhaseFigures:
    """Run publisher, consumer and perhaps HTTP clients, each in a process of its own.

    Args:
        server: Broker and management server.
        load: Instructions for publisher and consumer.
        http: Instructions for the HTTP clients; None for none.

    Raises:
        BenchError: A worker failed, a publish was refused, or the management server has ended.
    """
    probes: list[ServerProbe] = []

    def sample() -> None:
        for probe in probes:
            probe.sample()

    counters = Counters()
    with Workers(sample) as workers:
        consumer = workers.start(consume_spread, load, counters)
        publisher = workers.start(publish_spread, load, counters)
        asker = workers.start(ask_http, http) if http else None
        server.check_processes()
        broker = ServerProbe(server.broker_pid, has_children=False)
        management = ServerProbe(server.management_pid)
        probes += [broker, management]
        consumer.go()
        if asker:
            asker.go()
        publisher.go()
        published = workers.wait_for(publisher)
        counters.expected.value = published.published
        consumed = workers.wait_for(consumer)
        broker_cpu_seconds = broker.cpu_seconds() or 0.0
        answered = workers.wait_for(asker) if asker else None
        server.check_processes()
        management_cpu_seconds = management.cpu_seconds() or 0.0
        generator_cpu_seconds = (
            published.cpu_seconds
            + consumed.cpu_seconds
            + management_cpu_seconds
            + (answered.cpu_seconds if answered else 0.0)
        )
        others_cores = broker.others_cores(generator_cpu_seconds)
        sample()
    if published.nacked:
        raise BenchError(f"{published.nacked} publishes were refused")
    confirms = LatencySummary.of(published.confirm_latencies_ns)
    assert confirms is not None, "a phase has at least one message"
    latencies_ns = answered.latencies_ns if answered else {}
    return PhaseFigures(
        has_clients=http is not None,
        published=published.published,
        lost=published.published - consumed.distinct,
        repeated=consumed.received - consumed.distinct,
        confirms=confirms,
        broker_cpu_seconds=broker_cpu_seconds,
        broker_rss_bytes=broker.rss_anon_bytes_max or 0,
        management_cpu_seconds=management_cpu_seconds,
        management_rss_bytes=management.peak_rss_bytes() or 0,
        seconds=(published.end_ns - published.start_ns) / 1e9,
        others_cores=others_cores,
        http={
            kind: summary
            for kind, each in latencies_ns.items()
            if (summary := LatencySummary.of(each))
        },
        http_requests={kind: len(each) for kind, each in latencies_ns.items()},
    )
