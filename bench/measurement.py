"""What one run of one workload against one broker gave."""

from dataclasses import dataclass

from bench.latency import LatencySummary


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one run. None stands for what could not be known, or is not measured here.

    Attributes:
        published: Messages sent.
        confirmed: Messages that must arrive: acknowledged by the broker, or all of them when the
            workload confirms none.
        nacked: Messages that the broker refused.
        received: Deliveries.
        lost: Confirmed messages that did not arrive, plus one for each that arrived twice or was
            still in the queue at the end. A figure counts only when this is 0.
        publish_seconds: First publish to the moment when the broker had handled all.
        consume_seconds: First publish to last delivery; for a backlog, first to last delivery.
        wall_seconds: How long the run took, publish and consume.
        server_cpu_seconds: CPU of the server.
        generator_cpu_seconds: CPU of publisher and consumer together.
        others_cores: Cores busy with something else meanwhile; much of it spoils the figures.
        peak_rss_bytes: VmHWM of the server, reset before the run.
        rss_anon_bytes_max: Most RssAnon, sampled ten times a second.
        rss_anon_bytes_backlog: RssAnon with the whole backlog in the queue.
        latency: Of each message, from when it was due to its read.
        confirm_latency: Of each block of messages, from when it was due to the answer to all of it.
        late_seconds_max: How late the publisher kept its rate at worst.
        stalled_seconds: Whole seconds in which nothing was delivered though something was there.
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
    generator_cpu_seconds: float
    others_cores: float | None
    peak_rss_bytes: int | None
    rss_anon_bytes_max: int | None
    rss_anon_bytes_backlog: int | None = None
    latency: LatencySummary | None = None
    confirm_latency: LatencySummary | None = None
    late_seconds_max: float | None = None
    stalled_seconds: int | None = None

    @property
    def published_per_second(self) -> float:
        """Rate at which the broker took messages; confirmed ones, when they are confirmed."""
        return self.confirmed / self.publish_seconds if self.publish_seconds else 0.0

    @property
    def consumed_per_second(self) -> float:
        """Rate at which it delivered them."""
        return self.received / self.consume_seconds if self.consume_seconds else 0.0

    @property
    def generator_cores(self) -> float | None:
        """Cores that the generator kept busy."""
        return self.generator_cpu_seconds / self.wall_seconds if self.wall_seconds else None

    @property
    def server_cpu_seconds_per_million(self) -> float | None:
        """CPU of the server for a million messages through it, in and out."""
        if self.server_cpu_seconds is None or not self.received:
            return None
        return self.server_cpu_seconds * 1e6 / self.received
