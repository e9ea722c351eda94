"""Times two ways of doing the same in turns, and prints how they compare."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import click


@dataclass(slots=True)
class Comparison:
    """A measured way beside another one, both as bytes a second.

    Attributes:
        title: Name of the measured way.
        beside: Name of the other way.
        size_bytes: Bytes that each way handles in a round.
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
        """Time both ways once, the other one first; `prepare` runs before each and is not timed."""
        prepare()
        self._beside_seconds.append(seconds_of(other))
        prepare()
        self._seconds.append(seconds_of(measured))

    @property
    def ratio(self) -> float:
        """Speed of the measured way divided by the other's; medians of the rounds."""
        return median(self._beside_seconds) / median(self._seconds)

    def show(self) -> None:
        """Print the line of the comparison."""
        rate, beside = (
            self.size_bytes / median(seconds) / 1e6
            for seconds in (self._seconds, self._beside_seconds)
        )
        click.echo(
            f"{self.title:44}{rate:8,.0f} MB/s   {self.beside} {beside:8,.0f} MB/s"
            f"   ratio {self.ratio:.2f}"
        )


def seconds_of(action: Callable[[], object]) -> float:
    """Return the seconds of a call, after a garbage collection."""
    gc.collect()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def show_bar(bar: str, *, is_reached: bool) -> None:
    """Print a bar, and whether the figure above it reaches it."""
    click.echo(f"  bar {bar}: {'reached' if is_reached else 'MISSED'}")
