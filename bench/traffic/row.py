"""How a row of the traffic table is declared; each file of `bench.traffic.rows` has some."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.running_broker import RunningBroker
from bench.traffic.figures import TrafficFigures

TO_CONFIRM: Final = "publish to confirm"
TO_DELIVERY: Final = "publish to delivery"
ROUND_TRIP: Final = "round trip"


@dataclass(frozen=True, slots=True)
class TrafficEffort:
    """How much of a row to run.

    Attributes:
        seconds: How long one run publishes.
        warm_up_seconds: How long its warm-up publishes; 0 for no warm-up.
        share: Part of the full counts, above 0 to 1, of rows that count requests.
        seed: Seed of this run; both brokers get the same.
    """

    seconds: float
    warm_up_seconds: float
    share: float
    seed: int


@dataclass(frozen=True, slots=True)
class TrafficRow:
    """One row of the table.

    Attributes:
        key: Name on the command line and in JSON: letters, digits, hyphens.
        title: Full description of the row.
        measure: Runs once against a broker; warms up by itself, and leaves nothing behind. Raises
            `BenchError` or `OSError` if there are no figures.
        latency_kind: What the latencies are.
        unit: What is counted a second.
        try_missing: Returns what has to be installed for this row; "" for nothing.
        family: Rows of one family run together by their family's name.
    """

    key: str
    title: str
    measure: Callable[[RunningBroker, TrafficEffort], TrafficFigures]
    latency_kind: str = TO_CONFIRM
    unit: str = "msg/s"
    try_missing: Callable[[], str] = lambda: ""
    family: str = "traffic"
