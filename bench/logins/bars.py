"""How long requests took, and how long they may take."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

BARS: Final = ((95, 0.100), (99, 0.250))
"""Percentiles, and by how many seconds each may be longer than without strangers."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Requests of one phase.

    Attributes:
        seconds: Time of each request; one at least.
    """

    seconds: tuple[float, ...]

    def percentile(self, percent: int) -> float:
        """Return the time that so many of a hundred requests did not exceed."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]

    @property
    def text(self) -> str:
        """One line of the report."""
        times = ", ".join(f"p{each} {self.percentile(each) * 1e3:.1f} ms" for each in (50, 95, 99))
        return f"{times}, {len(self.seconds)} requests"


@dataclass(frozen=True, slots=True)
class Judged:
    """A percentile beside its bar.

    Attributes:
        title: What is judged.
        seconds: How much longer requests took.
        bar_seconds: How much longer they may take.
    """

    title: str
    seconds: float
    bar_seconds: float

    @property
    def is_reached(self) -> bool:
        """Whether the figure is good."""
        return self.seconds <= self.bar_seconds

    @property
    def text(self) -> str:
        """One line of the report."""
        verdict = "reached" if self.is_reached else "MISSED"
        figure, bar = self.seconds * 1e3, self.bar_seconds * 1e3
        return f"{self.title:<44}{figure:>+9.1f} ms  bar {bar:+.0f} ms: {verdict}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a JSON value."""
        return asdict(self) | {"is_reached": self.is_reached}


def judge(attack: str, alone: Answered, attacked: Answered) -> Iterator[Judged]:
    """Compare two phases."""
    for percent, bar in BARS:
        longer = attacked.percentile(percent) - alone.percentile(percent)
        yield Judged(f"{attack}: p{percent}, attacked - alone", longer, bar)
