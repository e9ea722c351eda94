"""Throughput over time: whether a server that is fast for a second stays so for a minute."""

import time
from dataclasses import dataclass, field
from typing import Final

from bench.process_stats import BUSY_CORES
from bench.rows.effort import Effort
from bench.run import run_workload
from bench.startable_broker import StartableBroker
from bench.worker import UNKNOWN, Counters
from bench.workloads import WORKLOADS, Scale

TIME_WORKLOAD: Final = "durable"
TIME_SECONDS: Final = 60.0
_QUICK_PART: Final = 0.1
_STEP_SECONDS: Final = 0.2


@dataclass(slots=True)
class TimeCurve:
    """Messages consumed a second, over the time of one run.

    Attributes:
        workload: Name of the workload.
        broker: Name of the broker.
        seconds: Time of each point, from the first delivery on.
        messages_per_second: Rate since the point before.
        lost: Messages lost.
        is_busy: Whether other programs were at work.
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
        """Take a point when the last is long enough ago; called about ten times a second."""
        now, received = time.monotonic(), counters.received.value
        if self._start is None:
            if received:
                self._start, self._last = now, (now, received)
            return
        if counters.expected.value != UNKNOWN:
            return  # nothing is published any more
        then, received_then = self._last
        if now - then >= _STEP_SECONDS:
            self.seconds.append(now - self._start)
            self.messages_per_second.append((received - received_then) / (now - then))
            self._last = (now, received)


def curve_seconds(effort: Effort) -> float:
    """Say how long a curve is measured."""
    return TIME_SECONDS * _QUICK_PART if effort.is_quick else TIME_SECONDS


def measure_over_time(broker: StartableBroker, effort: Effort) -> TimeCurve:
    """Run durable messages with confirms and acks for a minute, and look at them all the time.

    Raises:
        BenchError: The run failed.
        OSError: The broker went away.
    """
    running = broker.running()
    workload = WORKLOADS[TIME_WORKLOAD]
    warm_up = Scale(seconds=effort.warm_up_seconds)
    run_workload(running.url, running.pid, workload, warm_up)
    curve = TimeCurve(TIME_WORKLOAD, broker.name)
    measured = run_workload(
        running.url, running.pid, workload, Scale(seconds=curve_seconds(effort)), look=curve.look
    )
    curve.lost = measured.lost
    curve.is_busy = (measured.others_cores or 0) > BUSY_CORES
    return curve
