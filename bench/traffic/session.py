"""Runs the rows of the traffic table; the brokers take turns run by run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from bench.brokers import STARTERS
from bench.process_stats import wait_until_quiet
from bench.startable_broker import StartableBroker
from bench.table.outcome import one_line
from bench.table.time_limit import time_limit
from bench.traffic.frames import mixed
from bench.traffic.result import TrafficResult
from bench.traffic.row import TrafficEffort, TrafficRow

_QUIET_SECONDS_MAX: Final = 5.0
_LIMIT_SECONDS: Final = 120
_LIMIT_TIMES: Final = 10


class TrafficSession:
    """Runs rows with brokers that it starts; stops them at the end of its `with`.

    Args:
        brokers: Names of the brokers, which take turns.
        runs: Runs of each row against each broker, from 1.
        seed: Seed of the session; each run has its own, the same for all brokers.
        effort: How much of each row to run; `effort_of` sets its seed.
        data_parent: Directory for the servers' data directories, which are removed afterwards.
        keeps_brokers: Whether all rows share one server of each broker, which is quick; if not,
            each row has fresh servers.
        say: Called with each progress line.

    Attributes:
        results: Results so far; the last ones grow during their runs.
    """

    def __init__(
        self,
        brokers: Sequence[str],
        runs: int,
        seed: int,
        effort: TrafficEffort,
        data_parent: Path,
        *,
        keeps_brokers: bool,
        say: Callable[[str], None],
    ) -> None:
        self.results: list[TrafficResult] = []
        self._names = brokers
        self._runs = runs
        self._seed = seed
        self._effort = effort
        self._data_parent = data_parent
        self._keeps_brokers = keeps_brokers
        self._say = say
        self._brokers: dict[str, StartableBroker] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_brokers()

    def run(self, row: TrafficRow) -> list[TrafficResult]:
        """Run a row against all brokers, and return a result for each.

        A broker that fails gets no further run.
        """
        results = [TrafficResult(row, name) for name in self._names]
        self.results += results
        if missing := row.try_missing():
            for result in results:
                result.fault, result.is_missing = missing, True
            return results
        for number in range(1, self._runs + 1):
            for result in results:
                if not result.fault:
                    self._say(f"{row.key}: {result.broker}, run {number} of {self._runs}")
                    self._run_once(row, self.effort_of(number), result)
        if not self._keeps_brokers:
            self._stop_brokers()
        return results

    def effort_of(self, number: int) -> TrafficEffort:
        """Return the effort of the run with this number, with its seed."""
        effort = self._effort
        seed = mixed(number, self._seed)
        return TrafficEffort(effort.seconds, effort.warm_up_seconds, effort.share, seed)

    def _run_once(self, row: TrafficRow, effort: TrafficEffort, result: TrafficResult) -> None:
        if not self._keeps_brokers:
            wait_until_quiet(_QUIET_SECONDS_MAX)
        broker = self._broker(result.broker)
        try:
            with time_limit(_LIMIT_SECONDS + _LIMIT_TIMES * effort.seconds):
                result.runs.append(row.measure(broker.running(), effort))
        except Exception as error:  # noqa: BLE001 - one row that fails must not stop the others
            result.fault = one_line(error)
            self._say(f"{row.key}: {result.broker} failed: {error}")
            self._brokers.pop(result.broker).stop()  # its state is unknown

    def _broker(self, name: str) -> StartableBroker:
        if name not in self._brokers:
            self._brokers[name] = StartableBroker(
                name, lambda directory: STARTERS[name](directory, None), self._data_parent
            )
        return self._brokers[name]

    def _stop_brokers(self) -> None:
        while self._brokers:
            self._brokers.popitem()[1].stop()
