"""The workloads: which guarantees each asks of the broker, and how much of each to run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self


class Kind(StrEnum):
    """What a workload measures, and so which code runs it."""

    RATE = "rate"
    """Publish and consume at once, as fast as the broker goes."""
    LATENCY = "latency"
    """The same at a fixed rate, with the time of every message."""
    SOAK = "soak"
    """Many publishers, many consumers, one queue; every message looked at."""
    BACKLOG = "backlog"
    """Publish first, look at the memory, then consume."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload.

    Attributes:
        name: What it is called on the command line.
        summary: One line for the help page and the report.
        kind: What it measures.
        is_durable: Whether the queue is durable and the messages are persistent.
        confirm_window: Most publishes without an answer; 0 for none confirmed.
        prefetch: Most deliveries without an ack; 0 to consume without acks.
        ack_every: Deliveries for each ack (multiple).
        ring_slots: What our server is started with as `--ring-size`; None for its default.
    """

    name: str
    summary: str
    kind: Kind
    is_durable: bool = False
    confirm_window: int = 0
    prefetch: int = 0
    ack_every: int = 0
    ring_slots: int | None = None


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to run.

    Attributes:
        seconds: How long the rate and latency workloads publish.
        warm_up_seconds: The same before each of their runs, not reported; 0 for no warm-up.
        count: Messages of a rate workload instead of `seconds`; None for the time.
        body_bytes: Size of each body.
        rate_per_second: Rate of the latency workload.
        soak_seconds: How long the soak publishes.
        soak_connections: Publishers of the soak, and as many consumers.
        backlog_count: Messages of the backlog.
    """

    seconds: float = 5.0
    warm_up_seconds: float = 0.5
    count: int | None = None
    body_bytes: int = 128
    rate_per_second: int = 10_000
    soak_seconds: float = 30.0
    soak_connections: int = 20
    backlog_count: int = 5_000_000

    def for_warm_up(self) -> Self:
        """Give the scale of the run that is not reported."""
        return replace(self, seconds=self.warm_up_seconds, count=None)


_ALL: Final = (
    Workload("transient", "transient messages, no acks, both directions at once", Kind.RATE),
    Workload(
        "acks",
        "transient messages, acks, prefetch 1000",
        Kind.RATE,
        prefetch=1000,
        ack_every=250,
    ),
    Workload(
        "durable",
        "durable queue, persistent messages, confirms (window 1000), acks",
        Kind.RATE,
        is_durable=True,
        confirm_window=1000,
        prefetch=1000,
        ack_every=250,
    ),
    Workload(
        "latency",
        "transient messages at a fixed rate, acks, every message timed",
        Kind.LATENCY,
        prefetch=1000,
        ack_every=100,
    ),
    Workload(
        "latency-durable",
        "persistent messages at a fixed rate, confirms, acks, every message timed",
        Kind.LATENCY,
        is_durable=True,
        confirm_window=1000,
        prefetch=1000,
        ack_every=100,
    ),
    Workload(
        "soak",
        "20 publishers and 20 consumers on one queue, acks, every message checked",
        Kind.SOAK,
        prefetch=1000,
        ack_every=250,
        ring_slots=1024,
    ),
    Workload(
        "backlog",
        "persistent messages pile up in a durable queue, then are consumed",
        Kind.BACKLOG,
        is_durable=True,
        confirm_window=1000,
        prefetch=1000,
        ack_every=250,
    ),
)

WORKLOADS: Final[Mapping[str, Workload]] = MappingProxyType({each.name: each for each in _ALL})

DEFAULT_WORKLOADS: Final = ("transient", "acks", "durable", "latency")
"""Those that take seconds; soak and backlog take minutes and are run by name."""

QUICK: Final = Scale(seconds=1.0, warm_up_seconds=0.25, soak_seconds=3.0, backlog_count=100_000)
