"""Experiments that run one of the free-form workloads: one publisher, one consumer, one queue."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.measurement import Measurement
from bench.rows.effort import Effort
from bench.rows.experiment import Findings
from bench.run import run_workload
from bench.startable_broker import StartableBroker
from bench.workloads import Scale, Workload

BACKLOG_COUNT = 5_000_000
_WARM_UP_BACKLOG_COUNT = 100_000


@dataclass(frozen=True, slots=True)
class WorkloadExperiment:
    """Runs a workload once, after a short run of the same that is not reported.

    Attributes:
        workload: What to run.
        body_bytes: Size of each body.
        read: Reads the figure of each row off a measurement, by the row's key.
    """

    workload: Workload
    body_bytes: int
    read: Mapping[str, Callable[[Measurement], float | None]]

    def __call__(self, broker: StartableBroker, effort: Effort) -> Findings:
        """Run it once; as `Experiment.run`."""
        running = broker.running()
        scale = Scale(
            seconds=effort.seconds,
            warm_up_seconds=effort.warm_up_seconds,
            body_bytes=self.body_bytes,
            backlog_count=effort.count(BACKLOG_COUNT),
        )
        warm_up = dataclasses.replace(
            scale.for_warm_up(), backlog_count=effort.count(_WARM_UP_BACKLOG_COUNT)
        )
        run_workload(running.url, running.pid, self.workload, warm_up)
        measurement = run_workload(running.url, running.pid, self.workload, scale)
        values = {key: read(measurement) for key, read in self.read.items()}
        return Findings(
            values={key: value for key, value in values.items() if value is not None},
            lost=measurement.lost,
            others_cores=measurement.others_cores,
            details=dataclasses.asdict(measurement),
        )
