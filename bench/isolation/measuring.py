"""One run: an attack with probes beside it, then the same load outside of a broker."""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.broker_url import BrokerUrl
from bench.errors import BenchError
from bench.isolation.attack import Attack
from bench.isolation.attacker import AttackTimes, attack_broker
from bench.isolation.figures import ProbeFigures, Probes, Run
from bench.isolation.load import burn_cpu, write_disk
from bench.isolation.phased_process import PhasedProcess, PhaseTimeoutError
from bench.isolation.probes import ProbeReport, StopSign, measure_round_trips
from bench.isolation.server_cost import ServerCost, ServerWatch
from bench.process_stats import ServerProbe
from bench.running_broker import RunningBroker

_LEAD_SECONDS: Final = 0.1
_TAIL_SECONDS: Final = 0.5
"""Time for which the probes continue after the end of an attack: the broker may still work."""
_SAMPLE_SECONDS: Final = 0.1
_CONTROL_SECONDS_MAX: Final = 10.0
_READY_SECONDS_MAX: Final = 60.0
_SETTLE_SECONDS_MAX: Final = 5.0
_SETTLE_LOOK_SECONDS: Final = 0.2
_IDLE_CORES: Final = 0.1
_ATTACKER_CPU_SECONDS_MIN: Final = 0.02
_PAGE_BYTES: Final = 4096

StartBroker = Callable[[Path], AbstractContextManager[RunningBroker]]
"""Starts a broker with its data in an empty directory."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits of a run.

    Attributes:
        setup_seconds: Limit of the setup; a longer setup gives no figure.
        attack_seconds: Limit of the attack; a longer attack is cut off, and the run counts.
    """

    setup_seconds: float
    attack_seconds: float


@dataclass(frozen=True, slots=True)
class _Observation:
    """Figures of an attack without its control; see `Run`."""

    setup_seconds: float
    times: AttackTimes
    is_finished: bool
    cost: ServerCost
    probes: Probes

    @property
    def seconds(self) -> float:
        """Duration of the attack and the time after it."""
        return self.times.seconds + _TAIL_SECONDS


def measure(
    attack: Attack,
    numbers: Mapping[str, int],
    start: StartBroker,
    idle: RunningBroker,
    data_parent: Path,
    limits: TimeLimits,
) -> Run:
    """Run an attack once against a fresh broker, and its control beside an idle one.

    Args:
        attack: Attack to run.
        numbers: Arguments of `Attack.run`.
        start: Starts the broker.
        idle: Broker of the same kind without other clients.
        data_parent: Directory for the files of broker and control, which are removed.
        limits: Time limits.

    Raises:
        BenchError: There is no figure.
    """
    with tempfile.TemporaryDirectory(
        prefix="bench-", dir=data_parent, ignore_cleanup_errors=True
    ) as directory:
        with start(Path(directory)) as broker:
            observed = _observe_attack(attack, numbers, broker, limits)
            stop_start = time.monotonic()
        stop_seconds = time.monotonic() - stop_start
    cost = observed.cost
    generator_cores = (observed.times.cpu_seconds + observed.probes.cpu_seconds) / cost.seconds
    return Run(
        setup_seconds=observed.setup_seconds,
        attack_seconds=observed.times.seconds,
        is_finished=observed.is_finished,
        server_cpu_seconds=cost.cpu_seconds,
        attacker_cpu_seconds=observed.times.cpu_seconds,
        written_bytes=cost.written_bytes,
        peak_rss_bytes=cost.peak_rss_bytes,
        peak_anon_bytes=cost.peak_anon_bytes,
        others_cores=cost.other_cores and max(0.0, cost.other_cores - generator_cores),
        stop_seconds=stop_seconds,
        probes=observed.probes,
        control=_measure_control(observed, attack.bytes_per_sync, idle.url, data_parent),
    )


def _observe_attack(
    attack: Attack, numbers: Mapping[str, int], broker: RunningBroker, limits: TimeLimits
) -> _Observation:
    setup_start = time.monotonic()
    # Longer than the coordinator waits, so that the coordinator ends the attack.
    answer_seconds_max = 2 * max(limits.setup_seconds, limits.attack_seconds)
    with (
        PhasedProcess(attack_broker, broker.url, attack, numbers, answer_seconds_max) as attacker,
        _probes(broker.url) as probes,
    ):
        attacker.wait(limits.setup_seconds)
        setup_seconds = time.monotonic() - setup_start
        _wait_until_settled(broker.pid)
        probes.start()
        watch = ServerWatch(broker.pid)
        times, is_finished = _attack(attacker, limits.attack_seconds, watch)
        for _ in range(round(_TAIL_SECONDS / _SAMPLE_SECONDS)):
            time.sleep(_SAMPLE_SECONDS)
            watch.sample()
        cost = watch.cost()
        found = probes.stop(times.began_ns, times.ended_ns + int(_TAIL_SECONDS * 1e9))
    return _Observation(setup_seconds, times, is_finished, cost, found)


def _attack(
    attacker: PhasedProcess[AttackTimes | None], seconds_max: float, watch: ServerWatch
) -> tuple[AttackTimes, bool]:
    """Run the attack, and return whether its end was observed in time."""
    began_ns = time.monotonic_ns()
    deadline = time.monotonic() + seconds_max
    attacker.go()
    while time.monotonic() < deadline:
        watch.sample()
        try:
            times = attacker.wait(_SAMPLE_SECONDS)
        except PhaseTimeoutError:
            continue
        if times is None:
            raise BenchError("the attack reported no times")
        return times, True
    attacker.stop()
    return AttackTimes(began_ns, time.monotonic_ns(), 0.0), False


class _ProbeProcess:
    """The process of the probes, with its stop sign."""

    def __init__(self, process: PhasedProcess[ProbeReport | None], sign: StopSign) -> None:
        self._process = process
        self._sign = sign

    def start(self) -> None:
        """Start the probes, and return when they measure."""
        self._process.wait(_READY_SECONDS_MAX)
        self._process.go()
        time.sleep(_LEAD_SECONDS)

    def stop(self, start_ns: int, end_ns: int) -> Probes:
        """Stop the probes, and return the latencies of an interval."""
        self._sign.set()
        report = self._process.wait(_READY_SECONDS_MAX)
        if report is None:
            raise BenchError("the probes have measured nothing")
        loop = ProbeFigures.of(report.loop, start_ns, end_ns)
        durable = ProbeFigures.of(report.durable, start_ns, end_ns)
        if loop is None or durable is None:
            raise BenchError("no probe was due during the attack")
        return Probes(loop, durable, report.cpu_seconds)


@contextmanager
def _probes(url: BrokerUrl) -> Iterator[_ProbeProcess]:
    sign = StopSign()
    with PhasedProcess(measure_round_trips, url, sign) as process:
        yield _ProbeProcess(process, sign)


def _measure_control(
    observed: _Observation, bytes_per_sync: int, url: BrokerUrl, data_parent: Path
) -> Probes:
    """Measure an idle broker while processes beside it spend the CPU and writes of the attack.

    The control of a long attack is shorter, in proportion.
    """
    seconds = min(observed.seconds, _CONTROL_SECONDS_MAX)
    share = seconds / observed.seconds
    server_cpu_seconds = observed.cost.cpu_seconds or 0.0
    processes = max(1, math.ceil(server_cpu_seconds / observed.seconds))
    burns = [server_cpu_seconds / processes] * processes
    if observed.times.cpu_seconds > _ATTACKER_CPU_SECONDS_MIN:
        burns.append(observed.times.cpu_seconds)
    # The probes of the control write too.
    own_bytes = observed.probes.durable.count * _PAGE_BYTES
    written_bytes = max(0, (observed.cost.written_bytes or 0) - own_bytes)
    syncs = round(written_bytes * share / bytes_per_sync)
    with ExitStack() as stack:
        loads = [
            stack.enter_context(PhasedProcess(burn_cpu, each * share, seconds)) for each in burns
        ]
        loads.append(
            stack.enter_context(
                PhasedProcess(write_disk, data_parent, syncs, bytes_per_sync, seconds)
            )
        )
        for load in loads:
            load.wait(_READY_SECONDS_MAX)
        probes = stack.enter_context(_probes(url))
        probes.start()
        start_ns = time.monotonic_ns()
        for load in loads:
            load.go()
        time.sleep(seconds)
        return probes.stop(start_ns, time.monotonic_ns())


def _wait_until_settled(pid: int | None) -> None:
    """Wait until the broker is idle after the setup, for at most five seconds."""
    deadline = time.monotonic() + _SETTLE_SECONDS_MAX
    server = ServerProbe(pid)
    while time.monotonic() < deadline:
        server.start()
        time.sleep(_SETTLE_LOOK_SECONDS)
        if (server.cpu_seconds() or 0.0) <= _IDLE_CORES * _SETTLE_LOOK_SECONDS:
            return
