"""What a table runs, in which order, and how long that takes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.brokers import OURS_PURE, RABBITMQ
from bench.table.experiment import Effort, Experiment

SECONDS_MAX: Final = 38 * 60
"""The whole table has to be through in 40 minutes: when it would take longer, runs are left out."""

_START_SECONDS: Final[Mapping[str, float]] = {RABBITMQ: 6.0}
_OUR_START_SECONDS: Final = 0.6
_QUICK_PART: Final = 0.25
_PURE_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class PlannedExperiment:
    """One experiment with the brokers that it is run against.

    Attributes:
        experiment: What to run.
        brokers: Names of the brokers, which take turns run by run.
        runs: Runs of each.
        effort: How much of it, before a broker's own share.
    """

    experiment: Experiment
    brokers: Sequence[str]
    runs: int
    effort: Effort

    def effort_for(self, broker: str) -> Effort:
        """Give the effort for one broker: a slower one gets smaller counts."""
        if broker == RABBITMQ:
            return self.effort.for_slower(self.experiment.rabbitmq_share)
        return self.effort.for_slower(_PURE_SHARE) if broker == OURS_PURE else self.effort

    def run_seconds(self, broker: str) -> float:
        """Estimate one run."""
        experiment = self.experiment
        is_theirs = broker == RABBITMQ and experiment.rabbitmq_seconds is not None
        seconds = experiment.rabbitmq_seconds if is_theirs else experiment.seconds
        assert seconds is not None, "RabbitMQ's seconds are known where it is measured"
        return seconds * _QUICK_PART if self.effort.is_quick else seconds

    def start_seconds(self) -> float:
        """Estimate how long the servers take to start; quick experiments share theirs."""
        if self.effort.is_quick:
            return 0.0
        return sum(_START_SECONDS.get(name, _OUR_START_SECONDS) for name in self.brokers)

    def seconds(self) -> float:
        """Estimate all runs, with the servers' start."""
        return self.start_seconds() + self.runs * sum(map(self.run_seconds, self.brokers))


def plan_experiments(
    experiments: Sequence[Experiment], brokers: Sequence[str], runs: int, effort: Effort
) -> list[PlannedExperiment]:
    """Say what is run against which broker.

    RabbitMQ is left out of experiments that do not compare, and our interpreted server of those
    without a bar for it. An experiment that no broker is left for is left out.

    Args:
        experiments: In this order.
        brokers: Names of the brokers at hand.
        runs: Runs of each broker, from 1.
        effort: How much.
    """
    planned = []
    for experiment in experiments:
        wanted = [name for name in brokers if _wants(experiment, name)]
        if wanted:
            runs_here = min(runs, experiment.runs_max or runs)
            planned.append(PlannedExperiment(experiment, wanted, runs_here, effort))
    return planned


def _wants(experiment: Experiment, broker: str) -> bool:
    if broker == RABBITMQ:
        return experiment.rabbitmq_seconds is not None
    if broker == OURS_PURE:
        return any(row.interpreted_bar is not None for row in experiment.rows)
    return True


@dataclass(slots=True)
class Clock:
    """How much of the planned time is used, and how much is left as things went so far.

    Attributes:
        planned_seconds: All that is planned.
    """

    planned_seconds: float
    _start: float = field(default_factory=time.monotonic)
    _done_seconds: float = 0.0

    def advance(self, planned_seconds: float) -> None:
        """Count something as done, however long it really took."""
        self._done_seconds += planned_seconds

    def left_seconds(self) -> float:
        """Estimate what is left."""
        left = max(0.0, self.planned_seconds - self._done_seconds)
        # The first minutes say little about the plan; it is believed until then.
        trust = min(1.0, self._done_seconds / max(1.0, self.planned_seconds) * 5)
        pace = self.elapsed_seconds() / self._done_seconds if self._done_seconds else 1.0
        return left * (1 + trust * (pace - 1))

    def elapsed_seconds(self) -> float:
        """Say how long it has been."""
        return time.monotonic() - self._start

    def has_room(self) -> bool:
        """Whether the whole will be through in SECONDS_MAX as it goes now."""
        return self.elapsed_seconds() + self.left_seconds() < SECONDS_MAX


def describe_plan(planned: Sequence[PlannedExperiment]) -> Iterator[str]:
    """Write the plan, a line for each experiment."""
    for each in planned:
        rows = ", ".join(row.key for row in each.experiment.rows)
        brokers = ", ".join(each.brokers)
        yield (
            f"  {each.experiment.name:<22}{each.seconds():>5.0f} s  "
            f"{each.runs} x ({brokers}): {rows}"
        )
