"""The curves of the picture: throughput over the size of messages, and over time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bench.errors import BenchError
from bench.process_stats import BUSY_CORES
from bench.run import run_workload
from bench.startable_broker import StartableBroker
from bench.table.experiment import Effort
from bench.table.outcome import one_line
from bench.worker import UNKNOWN, Counters
from bench.workloads import WORKLOADS, Scale

BODY_SIZES: Final = (16, 64, 128, 256, 1024, 4096, 16384, 65536)
SIZE_WORKLOADS: Final = ("transient", "durable")
SIZE_POINT_SECONDS: Final = 3.5
"""Duration of one point at full effort, with the warm-up and the workers' start."""
_SIZE_SECONDS_MAX: Final = 1.5
_SIZE_WARM_UP_SECONDS_MAX: Final = 0.3

TIME_WORKLOAD: Final = "durable"
TIME_SECONDS: Final = 60.0
_QUICK_PART: Final = 0.1
_STEP_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class SizePoint:
    """Throughput of a broker with bodies of one size.

    Attributes:
        workload: Name of the workload.
        broker: Name of the broker.
        body_bytes: Size of each body.
        messages_per_second: Messages consumed a second; None if the run failed.
        lost: Messages lost.
        is_busy: Whether other programs used too much CPU.
        fault: Error of a run that failed; "" for none.
    """

    workload: str
    broker: str
    body_bytes: int
    messages_per_second: float | None
    lost: int = 0
    is_busy: bool = False
    fault: str = ""


def measure_sizes(
    brokers: Sequence[StartableBroker], workload: str, body_bytes: int, effort: Effort
) -> list[SizePoint]:
    """Measure one size of body against each broker, once.

    Args:
        brokers: Brokers, in their order.
        workload: One of `SIZE_WORKLOADS`.
        body_bytes: Size of each body.
        effort: How much; a point takes at most a second and a half, since there are many.
    """
    scale = Scale(
        seconds=min(effort.seconds, _SIZE_SECONDS_MAX),
        warm_up_seconds=min(effort.warm_up_seconds, _SIZE_WARM_UP_SECONDS_MAX),
        body_bytes=body_bytes,
    )
    return [_measure_size(broker, workload, scale) for broker in brokers]


def _measure_size(broker: StartableBroker, workload: str, scale: Scale) -> SizePoint:
    point = SizePoint(workload, broker.name, scale.body_bytes, None)
    try:
        measured = run_workload(broker.running(), WORKLOADS[workload], scale.for_warm_up(), scale)
    except (BenchError, OSError) as error:
        broker.stop()  # its state is unknown
        return replace(point, fault=one_line(error))
    return replace(
        point,
        messages_per_second=measured.consumed_per_second,
        lost=measured.lost,
        is_busy=(measured.others_cores or 0) > BUSY_CORES,
    )


@dataclass(slots=True)
class TimeCurve:
    """Messages consumed a second, over the time of one run.

    Attributes:
        workload: Name of the workload.
        broker: Name of the broker.
        seconds: Time of each point after the first delivery.
        messages_per_second: Rate since the previous point.
        lost: Messages lost.
        is_busy: Whether other programs used too much CPU.
    """

    workload: str
    broker: str
    seconds: list[float] = field(default_factory=list)
    messages_per_second: list[float] = field(default_factory=list)
    lost: int = 0
    is_busy: bool = False
    _start: float | None = None
    _last: tuple[float, int] = (0.0, 0)

    def look(self, counters: Counters) -> None:
        """Add a point if the previous one is old enough; call it ten times a second."""
        now, received = time.monotonic(), counters.received.value
        if self._start is None:
            if received:
                self._start, self._last = now, (now, received)
            return
        if counters.expected.value != UNKNOWN:
            return  # the publisher has finished
        then, received_then = self._last
        if now - then >= _STEP_SECONDS:
            self.seconds.append(now - self._start)
            self.messages_per_second.append((received - received_then) / (now - then))
            self._last = (now, received)


def curve_seconds(effort: Effort) -> float:
    """Return how long the curve over time is measured."""
    return TIME_SECONDS * _QUICK_PART if effort.is_quick else TIME_SECONDS


def measure_over_time(broker: StartableBroker, effort: Effort) -> TimeCurve:
    """Measure durable messages with confirms and acks for a minute.

    Raises:
        BenchError: The run failed.
        OSError: The broker went away.
    """
    curve = TimeCurve(TIME_WORKLOAD, broker.name)
    running, workload = broker.running(), WORKLOADS[TIME_WORKLOAD]
    run_workload(running, workload, Scale(seconds=effort.warm_up_seconds))
    scale = Scale(seconds=curve_seconds(effort))
    measured = run_workload(running, workload, scale, watch=curve.look)
    curve.lost = measured.lost
    curve.is_busy = (measured.others_cores or 0) > BUSY_CORES
    return curve
