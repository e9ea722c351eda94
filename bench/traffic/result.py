"""The runs of a row against one broker, and their medians."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.latency import milliseconds
from bench.process_stats import BUSY_CORES
from bench.traffic.figures import TrafficFigures
from bench.traffic.row import TrafficRow


@dataclass(slots=True)
class TrafficResult:
    """All runs of one row against one broker so far.

    Attributes:
        row: The row.
        broker: Name of the broker.
        runs: Figures of each run that ended.
        fault: Error of the run that failed, in one line, or what is missing; "" for none.
        is_missing: Whether a program that the row needs is not installed.
    """

    row: TrafficRow
    broker: str
    runs: list[TrafficFigures] = field(default_factory=list)
    fault: str = ""
    is_missing: bool = False

    @property
    def per_second(self) -> float | None:
        """Median of the messages a second."""
        return self.median(lambda run: run.per_second)

    @property
    def p50_ms(self) -> float | None:
        """Median of the runs' p50, in milliseconds."""
        return self.median(lambda run: milliseconds(run.latency, "p50"))

    @property
    def p99_ms(self) -> float | None:
        """Median of the runs' p99, in milliseconds."""
        return self.median(lambda run: milliseconds(run.latency, "p99"))

    @property
    def faults(self) -> int:
        """Messages lost, repeated, corrupt or out of order in all runs."""
        return sum(run.faults for run in self.runs)

    @property
    def is_busy(self) -> bool:
        """Whether other programs used too much CPU in a run."""
        return any((run.others_cores or 0) > BUSY_CORES for run in self.runs)

    @property
    def is_generator_limit(self) -> bool:
        """Whether a process of the generator was busy nearly all of the time in a run."""
        return any(run.is_generator_limit for run in self.runs)

    @property
    def is_wrong(self) -> bool:
        """Whether the figures do not count: a run failed, or messages were lost."""
        return bool(self.faults) or (bool(self.fault) and not self.is_missing)

    def median(self, figure: Callable[[TrafficFigures], float | None]) -> float | None:
        """Return the median of a figure of all runs; None if no run has it."""
        values = [value for run in self.runs if (value := figure(run)) is not None]
        return statistics.median(values) if values else None

    def to_json(self) -> dict[str, Any]:
        """Return all runs in a form that `json` can write."""
        return {
            "row": self.row.key,
            "title": self.row.title,
            "broker": self.broker,
            "latency_kind": self.row.latency_kind,
            "unit": self.row.unit,
            "fault": self.fault,
            "is_missing": self.is_missing,
            "is_busy": self.is_busy,
            "per_second": self.per_second,
            "runs": [run.to_json() for run in self.runs],
        }
