"""Figures of one run of an attack, and of several runs."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from bench.isolation.probes import RoundTrips
from bench.latency import LatencySummary


@dataclass(frozen=True, slots=True)
class ProbeFigures:
    """Latencies of one probe in an interval.

    Attributes:
        count: Round trips that were due in the interval.
        p50_ms: Half of the round trips took at most this long.
        p99_ms: 99 % of the round trips took at most this long.
        worst_ms: All round trips took at most this long.
        unanswered: Round trips without an answer at the end; their times count up to the end.
        late_ms: Longest delay of the probe itself.
    """

    count: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    unanswered: int
    late_ms: float

    @classmethod
    def of(cls, trips: RoundTrips, start_ns: int, end_ns: int) -> Self | None:
        """Summarize the round trips that were due in an interval; None if there were none."""
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
        """Return the median of each figure."""

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
    """Latencies of both probes in an interval.

    Attributes:
        loop: Transient messages, from the publish to the delivery.
        durable: Persistent messages, from the publish to the confirm.
        cpu_seconds: CPU of the probes from their start to their end.
    """

    loop: ProbeFigures
    durable: ProbeFigures
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an attack against a broker, with its control. Unknown figures are None.

    Attributes:
        setup_seconds: Duration of the setup.
        attack_seconds: Time from the first byte to the observed end; the time limit if no end was
            observed.
        is_finished: Whether the end was observed.
        server_cpu_seconds: CPU of the broker during the measurement.
        attacker_cpu_seconds: CPU of the attacker.
        written_bytes: Bytes that the broker wrote to the disk.
        peak_rss_bytes: VmHWM of the broker since the start of the attack.
        peak_anon_bytes: Largest RssAnon of ten samples a second; mapped files do not count.
        others_cores: Cores that other programs kept busy; many spoil the figures.
        stop_seconds: Time from SIGTERM to the end of the broker, which is killed after 30 s.
        probes: Latencies during the attack and half a second after it.
        control: Latencies during the same load outside of a broker.
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
        attack: Name of the attack.
        broker: Name of the broker.
        runs: The runs, in their order.
        is_timed: Whether the attack's duration depends on the broker.
        fault: Error of the run that failed; no further run follows. "" for none.
    """

    attack: str
    broker: str
    runs: list[Run]
    is_timed: bool = True
    fault: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether the end of the attack was observed in all runs."""
        return all(run.is_finished for run in self.runs)

    def attack_seconds(self) -> float:
        """Return the median of the attack's durations."""
        return statistics.median(run.attack_seconds for run in self.runs)

    def stop_seconds(self) -> float:
        """Return the median of the times to stop."""
        return statistics.median(run.stop_seconds for run in self.runs)

    def server_cpu_seconds(self) -> float | None:
        """Return the median of the broker's CPU; None if unknown."""
        return _median([run.server_cpu_seconds for run in self.runs])

    def peak_rss_bytes(self) -> float | None:
        """Return the median of the broker's peaks; None if unknown."""
        return _median([run.peak_rss_bytes for run in self.runs])

    def peak_anon_bytes(self) -> float | None:
        """Return the median of the broker's peaks without mapped files; None if unknown."""
        return _median([run.peak_anon_bytes for run in self.runs])

    def probes(self) -> Probes:
        """Return the medians of the latencies during the attack."""
        return _median_probes([run.probes for run in self.runs])

    def control(self) -> Probes:
        """Return the medians of the latencies during the control."""
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
