"""What a set of latencies comes to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Percentiles, in seconds, each the latency of a message that was there (nearest rank).

    Attributes:
        p50: Half of the messages were at most as late.
        p99: 99 % were.
        p999: 99.9 % were.
        worst: All were.
    """

    p50: float
    p99: float
    p999: float
    worst: float

    @classmethod
    def of(cls, latencies_ns: Sequence[int]) -> Self | None:
        """Sum up latencies in ns, in any order; None when there are none."""
        if not latencies_ns:
            return None
        ordered = sorted(latencies_ns)

        def at(permille: int) -> float:
            rank = -(-len(ordered) * permille // 1000)
            return ordered[rank - 1] / 1e9

        return cls(at(500), at(990), at(999), ordered[-1] / 1e9)
