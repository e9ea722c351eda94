"""Runs the experiments of a plan: brokers take turns run by run, what fails stops only itself."""

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
    """Runs experiments, with brokers that it starts, and stops at the end of its `with`.

    Attributes:
        starters: How to start each broker, by name.
        data_parent: Where servers get directories for their data, removed afterwards.
        clock: Told what is done.
        say: Called with a line for people.
        keeps_brokers: Whether all experiments share a server of each broker, which is quick;
            otherwise each experiment has fresh ones.
        outcomes: Of each experiment so far; the last one grows while it is run.
        products: What each broker calls itself, with its version, as far as one was started.
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

        A broker that fails is left out from then on. When time runs out, all get fewer runs.
        """
        outcome = Outcome(planned.experiment)
        self.outcomes.append(outcome)
        failed: set[str] = set()
        for number in range(1, planned.runs + 1):
            is_done = number > 1 and not self.clock.has_room()
            for name in planned.brokers:
                if name not in failed and not is_done:
                    self.tell(f"{planned.experiment.name}: {name}, run {number} of {planned.runs}")
                    if fault := self._run_in_peace(planned, name, outcome).fault:
                        failed.add(name)
                        self.say(f"{planned.experiment.name}: {name} failed: {fault}")
                        self._brokers.pop(name).stop()  # it may be in any state
                self.clock.advance(planned.run_seconds(name))
        self.clock.advance(planned.start_seconds())
        if not self.keeps_brokers:
            self.stop_brokers()
        return outcome

    def broker(self, name: str) -> StartableBroker:
        """Give the broker of this name that is at hand, until `stop_brokers`."""
        if name not in self._brokers:
            self._brokers[name] = StartableBroker(
                name, lambda directory: self._start(name, directory), self.data_parent
            )
        return self._brokers[name]

    def stop_brokers(self) -> None:
        """Stop all that are at hand; the next ones are fresh."""
        while self._brokers:
            self._brokers.popitem()[1].stop()

    def tell(self, line: str) -> None:
        """Say what is run now, and how long all of it will still take."""
        self.say(f"{line}; about {describe_seconds(self.clock.left_seconds())} left")

    def _run_in_peace(self, planned: PlannedExperiment, name: str, outcome: Outcome) -> Run:
        """Run it once, and once more when other programs were at work and there is time."""
        outcome.runs.append(self._run_once(planned, name))
        if outcome.runs[-1].is_busy and not planned.effort.is_quick and self.clock.has_room():
            self.tell(f"{planned.experiment.name}: {name}, again: other programs were at work")
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
        except Exception as error:  # noqa: BLE001 - one row that breaks must not cost the others
            return Run(name, time.monotonic() - start, fault=one_line(error))
        return Run(name, time.monotonic() - start, findings)

    @contextmanager
    def _start(self, name: str, directory: Path) -> Iterator[RunningBroker]:
        with self.starters[name](directory, None) as running:
            yield running
            # Only now: the time of the start may be what is measured.
            if name not in self.products:
                self.products[name] = _ask_product(running.url)


def describe_seconds(seconds: float) -> str:
    """Put a time in words."""
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _ask_product(url: BrokerUrl) -> str:
    try:
        with Connection(url, channel=1) as connection:
            connection.close()
            return connection.product
    except (OSError, BenchError):
        return ""
