"""Figures of one run of one workload against one broker."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.latency import LatencySummary


@dataclass(frozen=True, slots=True)
class Measurement:
    """Figures of one run. None stands for an unknown figure or one that the run does not measure.

    Attributes:
        published: Messages sent.
        confirmed: Messages that must arrive: those that the broker acknowledged, or all of them if
            the workload has no confirms.
        nacked: Messages that the broker refused.
        received: Deliveries of all queues.
        lost: Confirmed messages that did not arrive, plus one for each that arrived twice or was
            still in a queue at the end. A figure counts only if this is 0.
        publish_seconds: Time from the first publish to the moment when the broker had handled all.
        consume_seconds: Time from the first publish to the last delivery; for a backlog, from the
            first to the last delivery.
        wall_seconds: Duration of the run, publishing and consuming.
        server_cpu_seconds: CPU of the server.
        publisher_cpu_seconds: CPU of the publishers.
        consumer_cpu_seconds: CPU of the consumers.
        others_cores: Cores that neither server nor generator kept busy; many spoil the figures.
        peak_rss_bytes: VmHWM of the server, reset before the run.
        rss_anon_bytes_max: Largest RssAnon of ten samples a second.
        rss_anon_bytes_backlog: RssAnon with the whole backlog in the queue.
        latency: Time of each message from the moment when it was due to its read.
        confirm_latency: Time of each block from the moment when it was due to its last confirm.
        late_seconds_max: Longest delay of the publisher against its rate.
        stalled_seconds: Whole seconds without a delivery although messages were in the queue.
        received_of_each: Deliveries of each consumer.
        passed_of_each: Deliveries of each consumer while all publishers of `Kind.PAIRS` were
            publishing; empty if the run was too short.
    """

    published: int
    confirmed: int
    nacked: int
    received: int
    lost: int
    publish_seconds: float
    consume_seconds: float
    wall_seconds: float
    server_cpu_seconds: float | None
    publisher_cpu_seconds: float
    consumer_cpu_seconds: float
    others_cores: float | None
    peak_rss_bytes: int | None
    rss_anon_bytes_max: int | None
    rss_anon_bytes_backlog: int | None = None
    latency: LatencySummary | None = None
    confirm_latency: LatencySummary | None = None
    late_seconds_max: float | None = None
    stalled_seconds: int | None = None
    received_of_each: Sequence[int] = ()
    passed_of_each: Sequence[int] = ()

    @property
    def published_per_second(self) -> float:
        """Messages a second that the broker took; only confirmed ones if there are confirms."""
        return self.confirmed / self.publish_seconds if self.publish_seconds else 0.0

    @property
    def consumed_per_second(self) -> float:
        """Deliveries a second, of all queues."""
        return self.received / self.consume_seconds if self.consume_seconds else 0.0

    @property
    def generator_cpu_seconds(self) -> float:
        """CPU of publishers and consumers."""
        return self.publisher_cpu_seconds + self.consumer_cpu_seconds

    @property
    def generator_cores(self) -> float | None:
        """Cores that the generator kept busy."""
        return self.generator_cpu_seconds / self.wall_seconds if self.wall_seconds else None

    @property
    def server_cpu_seconds_per_million(self) -> float | None:
        """CPU of the server for a million messages in and out."""
        if self.server_cpu_seconds is None or not self.received:
            return None
        return self.server_cpu_seconds * 1e6 / self.received

    @property
    def peak_rss_megabytes(self) -> float | None:
        """Peak memory of the server in millions of bytes."""
        return None if self.peak_rss_bytes is None else self.peak_rss_bytes / 1_000_000

    def to_json(self) -> dict[str, Any]:
        """Return all figures in a form that `json` can write."""
        derived = (
            "generator_cpu_seconds",
            "published_per_second",
            "consumed_per_second",
            "server_cpu_seconds_per_million",
        )
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in derived}
