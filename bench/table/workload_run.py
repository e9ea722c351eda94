"""Runs a workload for the rows of the table."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bench.measurement import Measurement
from bench.run import run_workload
from bench.startable_broker import StartableBroker
from bench.table.experiment import Effort, Findings
from bench.workloads import Scale, Workload

BACKLOG_COUNT: Final = 5_000_000
_WARM_UP_BACKLOG_COUNT: Final = 100_000


@dataclass(frozen=True, slots=True)
class WorkloadRun:
    """Runs a workload once, after a short warm-up; the `run` of an `Experiment`.

    Attributes:
        workload: What to run.
        figures: Returns the figure of each row of the experiment, by the row's key; None for an
            unknown figure.
        body_bytes: Size of each body.
        seconds_max: Longest time to publish; the effort may ask for less.
    """

    workload: Workload
    figures: Callable[[Measurement], Mapping[str, float | None]]
    body_bytes: int = 128
    seconds_max: float = math.inf

    def __call__(self, broker: StartableBroker, effort: Effort) -> Findings:
        """Run the workload once.

        Raises:
            OSError: The broker went away.
            BenchError: The broker broke the protocol, or a worker failed.
        """
        scale = Scale(
            seconds=min(effort.seconds, self.seconds_max),
            warm_up_seconds=effort.warm_up_seconds,
            body_bytes=self.body_bytes,
            backlog_count=effort.count(BACKLOG_COUNT),
        )
        warm_up = dataclasses.replace(
            scale.for_warm_up(), backlog_count=effort.count(_WARM_UP_BACKLOG_COUNT)
        )
        measured = run_workload(broker.running(), self.workload, warm_up, scale)
        figures = self.figures(measured)
        return Findings(
            values={key: value for key, value in figures.items() if value is not None},
            lost=measured.lost,
            others_cores=measured.others_cores,
            details=measured.to_json(),
        )
