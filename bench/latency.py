"""Percentiles of a set of latencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Percentiles in seconds; each is the latency of a real message (nearest rank).

    Attributes:
        p50: Half of the messages had at most this latency.
        p99: 99 % of the messages had at most this latency.
        p999: 99.9 % of the messages had at most this latency.
        worst: All messages had at most this latency.
    """

    p50: float
    p99: float
    p999: float
    worst: float

    @classmethod
    def of(cls, latencies_ns: Sequence[int]) -> Self | None:
        """Summarize latencies in ns, in any order; None for no latencies."""
        if not latencies_ns:
            return None
        ordered = sorted(latencies_ns)

        def at(permille: int) -> float:
            rank = -(-len(ordered) * permille // 1000)
            return ordered[rank - 1] / 1e9

        return cls(at(500), at(990), at(999), ordered[-1] / 1e9)


def milliseconds(latency: LatencySummary | None, percentile: str) -> float | None:
    """Return a percentile in milliseconds; None for no latencies.

    Args:
        latency: Percentiles of a run.
        percentile: Name of one of the attributes.
    """
    if latency is None:
        return None
    seconds: float = getattr(latency, percentile)
    return seconds * 1e3
