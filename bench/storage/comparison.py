"""Timing two ways of doing the same, in turns, and saying how they compare."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import click


@dataclass(slots=True)
class Comparison:
    """One thing measured beside another, both a rate in bytes.

    Attributes:
        title: What is measured.
        beside: What it is compared with.
        size_bytes: Handled by either in each round.
    """

    title: str
    beside: str
    size_bytes: int
    _seconds: list[float] = field(default_factory=list)
    _beside_seconds: list[float] = field(default_factory=list)

    def round(
        self,
        measured: Callable[[], object],
        other: Callable[[], object],
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        """Time both once, the plain way first; `prepare` runs before each and is not timed."""
        prepare()
        self._beside_seconds.append(seconds_of(other))
        prepare()
        self._seconds.append(seconds_of(measured))

    @property
    def ratio(self) -> float:
        """How fast it was by the other's speed; medians of the rounds."""
        return median(self._beside_seconds) / median(self._seconds)

    def show(self) -> None:
        """Print one line."""
        rate, beside = (
            self.size_bytes / median(seconds) / 1e6
            for seconds in (self._seconds, self._beside_seconds)
        )
        click.echo(
            f"{self.title:44}{rate:8,.0f} MB/s   {self.beside} {beside:8,.0f} MB/s"
            f"   ratio {self.ratio:.2f}"
        )


def seconds_of(action: Callable[[], object]) -> float:
    """Return how long a call takes, without what was left to collect before it."""
    gc.collect()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
