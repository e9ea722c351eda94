"""Runs attacks; the brokers take turns, and an error stops only one attack on one broker."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Self

from bench.brokers import STARTERS
from bench.errors import BenchError
from bench.isolation.attack import Attack
from bench.isolation.figures import Result
from bench.isolation.measuring import TimeLimits, measure
from bench.running_broker import RunningBroker
from bench.startable_broker import StartableBroker


class IsolationSession:
    """Runs attacks against fresh brokers; an idle broker of each kind serves the controls.

    Args:
        brokers: Names of the brokers, which take turns.
        runs: Runs of each attack against each broker, from 1.
        data_parent: Directory for the servers' data directories, which are removed afterwards.
        limits: Time limits of a run.
        say: Called with each progress line.

    Attributes:
        results: Results of the attacks and brokers so far; the last ones grow during their runs.
    """

    def __init__(
        self,
        brokers: Sequence[str],
        runs: int,
        data_parent: Path,
        limits: TimeLimits,
        say: Callable[[str], None],
    ) -> None:
        self.results: list[Result] = []
        self._brokers = brokers
        self._runs = runs
        self._data_parent = data_parent
        self._limits = limits
        self._say = say
        self._idle: dict[str, StartableBroker] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, attack: Attack, numbers: Mapping[str, int]) -> list[Result]:
        """Run an attack against all brokers, and return a result for each broker.

        An attack that was cut off gets no further run against this broker.

        Args:
            attack: Attack to run.
            numbers: Arguments of `Attack.run`.
        """
        results = [
            Result(attack.name, name, [], is_timed=attack.is_timed) for name in self._brokers
        ]
        self.results += results
        for number in range(1, self._runs + 1):
            for result in results:
                if result.fault or not result.is_finished:
                    continue
                self._say(f"{attack.name}: {result.broker}, run {number} of {self._runs}")
                self._run_once(attack, numbers, result)
        return results

    def _run_once(self, attack: Attack, numbers: Mapping[str, int], result: Result) -> None:
        try:
            run = measure(
                attack,
                numbers,
                lambda directory: self._start(result.broker, directory),
                self._idle_broker(result.broker),
                self._data_parent,
                self._limits,
            )
        except (BenchError, OSError) as error:
            result.fault = str(error).strip().splitlines()[-1]
            self._say(f"{attack.name}: {result.broker} failed: {error}")
        else:
            result.runs.append(run)

    def _idle_broker(self, name: str) -> RunningBroker:
        if name not in self._idle:
            broker = StartableBroker(
                name, lambda directory: self._start(name, directory), self._data_parent
            )
            self._idle[name] = self._stack.enter_context(broker)
        return self._idle[name].running()

    def _start(self, name: str, directory: Path) -> AbstractContextManager[RunningBroker]:
        return STARTERS[name](directory, None)
