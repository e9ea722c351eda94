"""What the HTTP clients may cost, and what they did cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.management.rounds import Measured

P99_SECONDS_MAX: Final = 0.001
CPU_SHARE_MAX: Final = 0.03
BROKER_BYTES_MAX: Final = 2_000_000
IDLE_BYTES_MAX: Final = 80_000_000
BUSY_BYTES_MAX: Final = 300_000_000


@dataclass(frozen=True, slots=True)
class Judged:
    """A figure beside its bar.

    Attributes:
        title: What is judged.
        figure: The figure, in `unit`.
        bar: Largest figure that is good.
        unit: Unit of both.
    """

    title: str
    figure: float
    bar: float
    unit: str

    @property
    def is_reached(self) -> bool:
        """Whether the figure is good."""
        return self.figure <= self.bar

    @property
    def text(self) -> str:
        """One line of the report."""
        verdict = "reached" if self.is_reached else "MISSED"
        return f"{self.title:<52}{self.figure:>+9.2f} {self.unit:<3} bar {self.bar:+g}: {verdict}"


def judge(measured: Measured) -> Iterator[Judged]:
    """Compare the phases of each round; medians over the rounds are judged."""
    rounds = measured.rounds
    yield Judged(
        "p99 from publish to confirm, with - alone",
        median(busy.confirms.p99 - alone.confirms.p99 for alone, busy in rounds) * 1e3,
        P99_SECONDS_MAX * 1e3,
        "ms",
    )
    yield Judged(
        "broker CPU a message, with / alone - 1",
        median(
            busy.broker_cpu_seconds * alone.published / (alone.broker_cpu_seconds * busy.published)
            - 1
            if alone.broker_cpu_seconds
            else 0.0
            for alone, busy in rounds
        )
        * 100,
        CPU_SHARE_MAX * 100,
        "%",
    )
    yield Judged(
        "broker memory, with - alone",
        median(busy.broker_rss_bytes - alone.broker_rss_bytes for alone, busy in rounds) / 1e6,
        BROKER_BYTES_MAX / 1e6,
        "MB",
    )
    yield Judged(
        "management memory, before the first request",
        measured.idle_management_bytes / 1e6,
        IDLE_BYTES_MAX / 1e6,
        "MB",
    )
    yield Judged(
        "management memory, with HTTP clients",
        median(busy.management_rss_bytes for _, busy in rounds) / 1e6,
        BUSY_BYTES_MAX / 1e6,
        "MB",
    )
