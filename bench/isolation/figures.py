"""The figures of one run of an attack, and of several."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from bench.isolation.probes import RoundTrips
from bench.latency import LatencySummary


@dataclass(frozen=True, slots=True)
class ProbeFigures:
    """What one probe measured during a time.

    Attributes:
        count: Round trips that were due in this time.
        p50_ms: Half of them took at most this long.
        p99_ms: 99 % did.
        worst_ms: All did.
        unanswered: How many had no answer in the end; the times count up to there.
        late_ms: How late the probe itself was at worst.
    """

    count: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    unanswered: int
    late_ms: float

    @classmethod
    def of(cls, trips: RoundTrips, start_ns: int, end_ns: int) -> Self | None:
        """Sum up the round trips that were due in a time; None when there were none."""
        latencies_ns = [
            latency_ns
            for due_ns, latency_ns in zip(trips.due_ns, trips.latencies_ns, strict=True)
            if start_ns <= due_ns < end_ns
        ]
        summary = LatencySummary.of(latencies_ns)
        if summary is None:
            return None
        return cls(
            count=len(latencies_ns),
            p50_ms=summary.p50 * 1000,
            p99_ms=summary.p99 * 1000,
            worst_ms=summary.worst * 1000,
            unanswered=trips.unanswered,
            late_ms=trips.late_ns_max / 1e6,
        )

    @classmethod
    def median(cls, runs: Sequence[Self]) -> Self:
        """Give the median of each figure."""

        def middle(values: Iterable[float]) -> float:
            return statistics.median(values)

        return cls(
            count=round(middle(each.count for each in runs)),
            p50_ms=middle(each.p50_ms for each in runs),
            p99_ms=middle(each.p99_ms for each in runs),
            worst_ms=middle(each.worst_ms for each in runs),
            unanswered=max(each.unanswered for each in runs),
            late_ms=max(each.late_ms for each in runs),
        )


@dataclass(frozen=True, slots=True)
class Probes:
    """What both probes measured during a time.

    Attributes:
        loop: Transient, publish to delivery.
        durable: Persistent, publish to confirm.
        cpu_seconds: CPU of the probes themselves, from their start to their end.
    """

    loop: ProbeFigures
    durable: ProbeFigures
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an attack against a broker, with its control. Figures are None when unknown.

    Attributes:
        setup_seconds: How long the setup took.
        attack_seconds: From the first octet to the observed end; how long it was allowed to take
            when it did not end.
        is_finished: Whether the end was observed.
        server_cpu_seconds: CPU of the broker during the measurement.
        attacker_cpu_seconds: CPU of the attacker.
        written_bytes: What the broker wrote to the disk.
        peak_rss_bytes: VmHWM of the broker, from the begin of the attack.
        peak_anon_bytes: Peak of its RssAnon, ten samples a second: without mapped files.
        others_cores: Cores that were busy with other programs; many of them spoil the figures.
        stop_seconds: From SIGTERM to the end of the broker; it is killed after 30.
        probes: During the attack and half a second after it.
        control: During the same load outside of a broker.
    """

    setup_seconds: float
    attack_seconds: float
    is_finished: bool
    server_cpu_seconds: float | None
    attacker_cpu_seconds: float
    written_bytes: int | None
    peak_rss_bytes: int | None
    peak_anon_bytes: int | None
    others_cores: float | None
    stop_seconds: float
    probes: Probes
    control: Probes


@dataclass(slots=True)
class Result:
    """All runs of an attack against one broker.

    Attributes:
        attack: Its name.
        broker: The broker's name.
        runs: What was measured, in order.
        is_timed: Whether the attack's duration says something about the broker.
        fault: Why there are no more runs, or none at all; "" when nothing failed.
    """

    attack: str
    broker: str
    runs: list[Run]
    is_timed: bool = True
    fault: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether the attack came to its end in all runs."""
        return all(run.is_finished for run in self.runs)

    def attack_seconds(self) -> float:
        """Median of the attack's durations."""
        return statistics.median(run.attack_seconds for run in self.runs)

    def stop_seconds(self) -> float:
        """Median of the times to stop."""
        return statistics.median(run.stop_seconds for run in self.runs)

    def server_cpu_seconds(self) -> float | None:
        """Median of the broker's CPU; None when unknown."""
        return _median([run.server_cpu_seconds for run in self.runs])

    def peak_rss_bytes(self) -> float | None:
        """Median of the broker's peaks; None when unknown."""
        return _median([run.peak_rss_bytes for run in self.runs])

    def peak_anon_bytes(self) -> float | None:
        """Median of the broker's peaks without mapped files; None when unknown."""
        return _median([run.peak_anon_bytes for run in self.runs])

    def probes(self) -> Probes:
        """Medians of what the probes measured during the attack."""
        return _median_probes([run.probes for run in self.runs])

    def control(self) -> Probes:
        """Medians of what they measured during the control."""
        return _median_probes([run.control for run in self.runs])


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _median_probes(runs: Sequence[Probes]) -> Probes:
    return Probes(
        ProbeFigures.median([each.loop for each in runs]),
        ProbeFigures.median([each.durable for each in runs]),
        statistics.median(each.cpu_seconds for each in runs),
    )
