"""Several workloads against several brokers: fresh servers for each workload, runs interleaved."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.brokers import Starter
from bench.errors import BenchError
from bench.measurement import Measurement
from bench.run import run_workload
from bench.running_broker import RunningBroker
from bench.workloads import Kind, Scale, Workload


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one workload against one broker.

    Attributes:
        workload: Name of the workload.
        broker: Name of the broker.
        measurements: One for each run that went through.
        fault: Why there are fewer than were asked for; "" when there are not.
    """

    workload: str
    broker: str
    measurements: Sequence[Measurement]
    fault: str = ""

    @property
    def counts(self) -> bool:
        """Whether its figures may be quoted: no fault, nothing lost, no second of standstill."""
        return not self.fault and all(
            each.lost == 0 and not each.stalled_seconds for each in self.measurements
        )


@dataclass(frozen=True, slots=True)
class Session:
    """What to run, and where to tell how it goes.

    Attributes:
        starters: How to start each broker, by name; all of a workload run side by side, and all
            but the one that is measured stand idle.
        scale: How much of each workload.
        runs: Runs of each workload and broker, from 1, in turn: what slows the machine down for a
            while then slows all brokers.
        data_parent: Where each server gets a directory for its data, removed afterwards.
        say: Called with a line for people.
    """

    starters: Mapping[str, Starter]
    scale: Scale
    runs: int
    data_parent: Path
    say: Callable[[str], None]

    def run(self, workload: Workload) -> list[Outcome]:
        """Run one workload against each broker.

        Raises:
            BrokerStartError: One did not start.
        """
        measurements: dict[str, list[Measurement]] = {name: [] for name in self.starters}
        faults: dict[str, str] = {}
        with ExitStack() as stack:
            brokers = [self._start(stack, name, workload) for name in self.starters]
            for run in range(self.runs):
                for broker in brokers:
                    if broker.name in faults:
                        continue
                    self.say(f"{workload.name}: {broker.name}, run {run + 1} of {self.runs}")
                    try:
                        measurements[broker.name].append(self._run_once(broker, workload))
                    except (BenchError, OSError) as error:
                        faults[broker.name] = str(error)
                        self.say(f"{workload.name}: {broker.name} failed: {error}")
        return [
            Outcome(workload.name, name, measurements[name], faults.get(name, ""))
            for name in self.starters
        ]

    def _start(self, stack: ExitStack, name: str, workload: Workload) -> RunningBroker:
        directory = tempfile.TemporaryDirectory(
            prefix="bench-", dir=self.data_parent, ignore_cleanup_errors=True
        )
        path = Path(stack.enter_context(directory))
        return stack.enter_context(self.starters[name](path, workload.ring_slots))

    def _run_once(self, broker: RunningBroker, workload: Workload) -> Measurement:
        scale = self.scale
        if workload.kind in (Kind.RATE, Kind.LATENCY) and scale.warm_up_seconds:
            run_workload(broker.url, broker.pid, workload, scale.for_warm_up())
        return run_workload(
            broker.url,
            broker.pid,
            workload,
            scale,
            lambda seconds, published, received: self.say(
                f"  {seconds:3d} s  published {published:>12,}  received {received:>12,}  "
                f"waiting {published - received:>12,}"
            ),
        )
