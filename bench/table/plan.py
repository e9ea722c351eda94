"""The plan of a table: what to run, in which order, and how long it takes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.brokers import OURS_PURE, RABBITMQ
from bench.table.experiment import Effort, Experiment

SECONDS_MAX: Final = 38 * 60
"""The table has to end within 40 minutes; if it would take longer, it leaves runs out."""

_START_SECONDS: Final[Mapping[str, float]] = {RABBITMQ: 6.0}
_OUR_START_SECONDS: Final = 0.6
_QUICK_PART: Final = 0.25
_PURE_SHARE: Final = 0.2


@dataclass(frozen=True, slots=True)
class PlannedExperiment:
    """One experiment with its brokers.

    Attributes:
        experiment: The experiment.
        brokers: Names of the brokers, which take turns run by run.
        runs: Runs against each broker.
        effort: How much of the experiment to run, before a broker's own share.
    """

    experiment: Experiment
    brokers: Sequence[str]
    runs: int
    effort: Effort

    def effort_for(self, broker: str) -> Effort:
        """Return the effort for one broker; a slower broker gets smaller counts."""
        if broker == RABBITMQ:
            return self.effort.for_slower(self.experiment.rabbitmq_share)
        return self.effort.for_slower(_PURE_SHARE) if broker == OURS_PURE else self.effort

    def run_seconds(self, broker: str) -> float:
        """Return the expected duration of one run."""
        experiment = self.experiment
        is_theirs = broker == RABBITMQ and experiment.rabbitmq_seconds is not None
        seconds = experiment.rabbitmq_seconds if is_theirs else experiment.seconds
        assert seconds is not None, "RabbitMQ's seconds are known where it is measured"
        return seconds * _QUICK_PART if self.effort.is_quick else seconds

    def start_seconds(self) -> float:
        """Return the expected time of the servers' start; quick experiments share their servers."""
        if self.effort.is_quick:
            return 0.0
        return sum(_START_SECONDS.get(name, _OUR_START_SECONDS) for name in self.brokers)

    def seconds(self) -> float:
        """Return the expected duration of all runs, with the servers' start."""
        return self.start_seconds() + self.runs * sum(map(self.run_seconds, self.brokers))


def plan_experiments(
    experiments: Sequence[Experiment], brokers: Sequence[str], runs: int, effort: Effort
) -> list[PlannedExperiment]:
    """Return the plan: which experiments to run against which brokers.

    Experiments without a comparison leave RabbitMQ out, and those without a bar for it leave our
    interpreted server out. An experiment without a broker is not in the plan.

    Args:
        experiments: Experiments, in their order.
        brokers: Names of the available brokers.
        runs: Runs against each broker, from 1.
        effort: How much of each experiment to run.
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
    """Estimates the remaining time from the planned time and the pace so far.

    Attributes:
        planned_seconds: Planned time of the whole table.
    """

    planned_seconds: float
    _start: float = field(default_factory=time.monotonic)
    _done_seconds: float = 0.0

    def advance(self, planned_seconds: float) -> None:
        """Count planned time as used, whatever time it really took."""
        self._done_seconds += planned_seconds

    def left_seconds(self) -> float:
        """Return the expected remaining time."""
        left = max(0.0, self.planned_seconds - self._done_seconds)
        # The pace of the first minutes says little: it counts fully after a fifth of the plan.
        trust = min(1.0, self._done_seconds / max(1.0, self.planned_seconds) * 5)
        pace = self.elapsed_seconds() / self._done_seconds if self._done_seconds else 1.0
        return left * (1 + trust * (pace - 1))

    def elapsed_seconds(self) -> float:
        """Return the time since the start."""
        return time.monotonic() - self._start

    def has_room(self) -> bool:
        """Return whether the table will end within SECONDS_MAX at this pace."""
        return self.elapsed_seconds() + self.left_seconds() < SECONDS_MAX


def describe_plan(planned: Sequence[PlannedExperiment]) -> Iterator[str]:
    """Return the plan, a line for each experiment."""
    for each in planned:
        rows = ", ".join(row.key for row in each.experiment.rows)
        brokers = ", ".join(each.brokers)
        yield (
            f"  {each.experiment.name:<22}{each.seconds():>5.0f} s  "
            f"{each.runs} x ({brokers}): {rows}"
        )
