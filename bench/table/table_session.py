"""Runs the experiments of a plan; the brokers take turns run by run."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from bench.broker_url import BrokerUrl
from bench.brokers import Starter
from bench.connection import Connection
from bench.errors import BenchError
from bench.process_stats import wait_until_quiet
from bench.running_broker import RunningBroker
from bench.startable_broker import StartableBroker
from bench.table.outcome import Outcome, Run, one_line
from bench.table.plan import Clock, PlannedExperiment
from bench.table.time_limit import time_limit

_QUIET_SECONDS_MAX: Final = 5.0
_LIMIT_SECONDS: Final = 60
_LIMIT_TIMES: Final = 5


@dataclass(slots=True)
class TableSession:
    """Runs experiments with brokers that it starts; stops them at the end of its `with`.

    Attributes:
        starters: How to start each broker, by name.
        data_parent: Directory for the servers' data directories, which are removed afterwards.
        clock: Counts the planned time that is used.
        say: Called with each progress line.
        keeps_brokers: Whether all experiments share one server of each broker, which is quick;
            if not, each experiment has fresh servers.
        outcomes: Outcomes of the experiments so far; the last one grows during its runs.
        products: Name and version that each started broker reports.
    """

    starters: Mapping[str, Starter]
    data_parent: Path
    clock: Clock
    say: Callable[[str], None]
    keeps_brokers: bool = False
    outcomes: list[Outcome] = field(default_factory=list)
    products: dict[str, str] = field(default_factory=dict)
    _brokers: dict[str, StartableBroker] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_brokers()

    def run(self, planned: PlannedExperiment) -> Outcome:
        """Run one experiment against its brokers.

        A broker that fails gets no further run. If time runs out, all brokers get fewer runs.
        """
        outcome = Outcome(planned.experiment)
        self.outcomes.append(outcome)
        failed: set[str] = set()
        for number in range(1, planned.runs + 1):
            is_done = number > 1 and not self.clock.has_room()
            for name in planned.brokers:
                if name not in failed and not is_done:
                    self.say_with_time(
                        f"{planned.experiment.name}: {name}, run {number} of {planned.runs}"
                    )
                    if fault := self._run_undisturbed(planned, name, outcome).fault:
                        failed.add(name)
                        self.say(f"{planned.experiment.name}: {name} failed: {fault}")
                        self._brokers.pop(name).stop()  # its state is unknown
                self.clock.advance(planned.run_seconds(name))
        self.clock.advance(planned.start_seconds())
        if not self.keeps_brokers:
            self.stop_brokers()
        return outcome

    def broker(self, name: str) -> StartableBroker:
        """Return the broker of this name, the same one until `stop_brokers`."""
        if name not in self._brokers:
            self._brokers[name] = StartableBroker(
                name, lambda directory: self._start(name, directory), self.data_parent
            )
        return self._brokers[name]

    def stop_brokers(self) -> None:
        """Stop all brokers; the next ones are fresh."""
        while self._brokers:
            self._brokers.popitem()[1].stop()

    def say_with_time(self, line: str) -> None:
        """Say a line, with the time that the rest of the table still takes."""
        self.say(f"{line}; about {describe_seconds(self.clock.left_seconds())} left")

    def _run_undisturbed(self, planned: PlannedExperiment, name: str, outcome: Outcome) -> Run:
        """Run once, and once more if other programs disturbed the run and there is time."""
        outcome.runs.append(self._run_once(planned, name))
        if outcome.runs[-1].is_busy and not planned.effort.is_quick and self.clock.has_room():
            self.say_with_time(
                f"{planned.experiment.name}: {name}, again: other programs disturbed the run"
            )
            outcome.runs.append(self._run_once(planned, name))
        return outcome.runs[-1]

    def _run_once(self, planned: PlannedExperiment, name: str) -> Run:
        if not planned.effort.is_quick:
            wait_until_quiet(_QUIET_SECONDS_MAX)
        limit_seconds = _LIMIT_SECONDS + _LIMIT_TIMES * planned.run_seconds(name)
        broker = self.broker(name)
        start = time.monotonic()
        try:
            with time_limit(limit_seconds):
                findings = planned.experiment.run(broker, planned.effort_for(name))
        except Exception as error:  # noqa: BLE001 - one row that fails must not stop the others
            return Run(name, time.monotonic() - start, fault=one_line(error))
        return Run(name, time.monotonic() - start, findings)

    @contextmanager
    def _start(self, name: str, directory: Path) -> Iterator[RunningBroker]:
        with self.starters[name](directory, None) as running:
            yield running
            # Not before the run: it may measure the time of the start.
            if name not in self.products:
                self.products[name] = _ask_product(running.url)


def describe_seconds(seconds: float) -> str:
    """Return a time in words."""
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _ask_product(url: BrokerUrl) -> str:
    try:
        with Connection(url, channel=1) as connection:
            connection.close()
            return connection.product
    except (OSError, BenchError):
        return ""
