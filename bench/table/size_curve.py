"""Throughput over the size of messages."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.errors import BenchError
from bench.process_stats import BUSY_CORES
from bench.rows.effort import Effort
from bench.run import run_workload
from bench.startable_broker import StartableBroker
from bench.table.outcome import one_line
from bench.workloads import WORKLOADS, Scale

BODY_SIZES: Final = (16, 64, 128, 256, 1024, 4096, 16384, 65536)
SIZE_WORKLOADS: Final = ("transient", "durable")

SIZE_POINT_SECONDS: Final = 3.5
"""How long one point takes at full effort, warm-up and workers' start included."""

_SECONDS_MAX: Final = 1.5
_WARM_UP_SECONDS_MAX: Final = 0.3


@dataclass(frozen=True, slots=True)
class SizePoint:
    """What a broker reached with bodies of one size.

    Attributes:
        workload: Name of the workload.
        broker: Name of the broker.
        body_bytes: Size of each body.
        messages_per_second: Messages consumed a second; None when the run failed.
        lost: Messages lost.
        is_busy: Whether other programs were at work.
        fault: Why the run failed; "" when it did not.
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
        brokers: In turn.
        workload: One of `SIZE_WORKLOADS`.
        body_bytes: Size of each body.
        effort: How much; a point is one of many, and takes no longer than a second and a half.
    """
    scale = Scale(
        seconds=min(effort.seconds, _SECONDS_MAX),
        warm_up_seconds=min(effort.warm_up_seconds, _WARM_UP_SECONDS_MAX),
        body_bytes=body_bytes,
    )
    return [_measure(broker, workload, scale) for broker in brokers]


def _measure(broker: StartableBroker, workload: str, scale: Scale) -> SizePoint:
    point = SizePoint(workload, broker.name, scale.body_bytes, None)
    try:
        running = broker.running()
        for each in (scale.for_warm_up(), scale):
            measured = run_workload(running.url, running.pid, WORKLOADS[workload], each)
    except (BenchError, OSError) as error:
        broker.stop()  # it may be in any state
        return replace(point, fault=one_line(error))
    return replace(
        point,
        messages_per_second=measured.consumed_per_second,
        lost=measured.lost,
        is_busy=(measured.others_cores or 0) > BUSY_CORES,
    )
