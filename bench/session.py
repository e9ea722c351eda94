"""Runs a workload against several brokers: fresh servers, runs in turn."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.brokers import Starter
from bench.errors import BenchError
from bench.measurement import Measurement
from bench.progress import ProgressWatch
from bench.run import run_workload
from bench.running_broker import RunningBroker
from bench.startable_broker import StartableBroker
from bench.workloads import WORKLOADS, Kind, Scale


@dataclass(frozen=True, slots=True)
class Outcome:
    """All runs of one workload against one broker.

    Attributes:
        workload: Name of the workload.
        broker: Name of the broker.
        measurements: One for each run that ended without an error.
        fault: Error of the first run that failed; no further run follows. "" for none.
    """

    workload: str
    broker: str
    measurements: Sequence[Measurement]
    fault: str = ""

    @property
    def counts(self) -> bool:
        """Whether the figures may be quoted: no error, no loss, no second without a delivery."""
        return not self.fault and all(
            each.lost == 0 and not each.stalled_seconds for each in self.measurements
        )


@dataclass(frozen=True, slots=True)
class Session:
    """Settings for all workloads of a command.

    Attributes:
        starters: How to start each broker, by name. The brokers of a workload run side by side;
            all but the one that is measured are idle.
        scale: How much of each workload.
        runs: Runs of each workload and broker, from 1. The brokers take turns, so that a temporary
            slowdown of the machine affects all of them.
        data_parent: Directory for the servers' data directories, which are removed afterwards.
        say: Called with each progress line.
    """

    starters: Mapping[str, Starter]
    scale: Scale
    runs: int
    data_parent: Path
    say: Callable[[str], None]

    def run(self, workload: str) -> list[Outcome]:
        """Run the workload of this name against each broker.

        Raises:
            BrokerStartError: A broker did not start.
        """
        measurements: dict[str, list[Measurement]] = {name: [] for name in self.starters}
        faults: dict[str, str] = {}
        with ExitStack() as stack:
            brokers = [self._start(stack, name, workload) for name in self.starters]
            for run in range(self.runs):
                for broker in brokers:
                    if broker.name in faults:
                        continue
                    self.say(f"{workload}: {broker.name}, run {run + 1} of {self.runs}")
                    try:
                        measurements[broker.name].append(self._run_once(broker, workload))
                    except (BenchError, OSError) as error:
                        faults[broker.name] = str(error)
                        self.say(f"{workload}: {broker.name} failed: {error}")
        return [
            Outcome(workload, name, measurements[name], faults.get(name, ""))
            for name in self.starters
        ]

    def _start(self, stack: ExitStack, name: str, workload: str) -> RunningBroker:
        ring_slots = WORKLOADS[workload].ring_slots
        startable = StartableBroker(
            name, lambda directory: self.starters[name](directory, ring_slots), self.data_parent
        )
        return stack.enter_context(startable).running()

    def _run_once(self, broker: RunningBroker, name: str) -> Measurement:
        workload = WORKLOADS[name]
        if workload.kind == Kind.SOAK:
            watch = ProgressWatch(self._say_progress)
            measured = run_workload(broker, workload, self.scale, watch=watch.look)
            return replace(measured, stalled_seconds=watch.stalled_seconds)
        if workload.kind == Kind.BACKLOG or not self.scale.warm_up_seconds:
            return run_workload(broker, workload, self.scale)
        return run_workload(broker, workload, self.scale.for_warm_up(), self.scale)

    def _say_progress(self, seconds: int, published: int, received: int) -> None:
        self.say(
            f"  {seconds:3d} s  published {published:>12,}  received {received:>12,}  "
            f"waiting {published - received:>12,}"
        )
