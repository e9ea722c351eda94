"""The past values of the counters of one object, at two or more resolutions."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SMALL_MAX: Final = (1 << 32) - 1
_SPARE_SAMPLES: Final = 16
"""Samples above those that are kept, so that not each new one moves all others."""


class Resolution(NamedTuple):
    """How often a value is kept, and for how long; both in seconds."""

    step_seconds: int
    keep_seconds: int


TOTALS: Final = (
    Resolution(5, 605),
    Resolution(60, 3660),
    Resolution(600, 29_400),
    Resolution(1800, 86_400),
)
"""Of the whole server."""
OBJECTS: Final = (Resolution(5, 605), Resolution(60, 3660))
"""Of a queue, an exchange, a virtual host, a node."""
CLIENTS: Final = (Resolution(5, 605),)
"""Of a connection or a channel."""


class Series:
    """The values of some counters at one resolution.

    A sample is kept only when a value has changed, so an object that is idle costs nothing more.
    Before the first sample a counter has the value in `base`, or 0.

    Args:
        resolution: How often a sample is kept, and for how long.
        base: Values before the first sample, by counter.
    """

    __slots__ = ("_base", "_columns", "_is_cut", "_times", "resolution")

    def __init__(self, resolution: Resolution, base: Mapping[str, int]) -> None:
        self.resolution = resolution
        self._base = {name: value for name, value in base.items() if value}
        self._times = array("I")
        # Whether older samples than the first one were there.
        self._is_cut = False
        self._columns: dict[str, array[int]] = {}

    def add(self, at_seconds: int, values: Mapping[str, int]) -> None:
        """Add values; those of one step replace each other.

        Args:
            at_seconds: When, Unix time; not below that of the last call.
            values: By counter. A counter that was there before and is missing is 0.
        """
        step = self.resolution.step_seconds
        at_seconds = -(-at_seconds // step) * step
        is_new = not self._times or self._times[-1] < at_seconds
        if is_new:
            self._times.append(at_seconds)
        for name in (values.keys() | self._base.keys()) - self._columns.keys():
            before = self._base.get(name, 0)
            if before or values.get(name):
                column = array("I" if 0 <= before <= _SMALL_MAX else "q", [before])
                self._columns[name] = column * (len(self._times) - is_new)
        for name, column in self._columns.items():
            value = values.get(name, 0)
            if column.typecode == "I" and not 0 <= value <= _SMALL_MAX:
                column = self._columns[name] = array("q", column)
            if is_new:
                column.append(value)
            else:
                column[-1] = value
        self._drop_old(at_seconds)

    def _drop_old(self, now_seconds: int) -> None:
        step, keep = self.resolution
        if len(self._times) <= keep // step + _SPARE_SAMPLES:
            return
        # The last sample before the time that is kept is the value at its beginning.
        count = bisect_right(self._times, now_seconds - keep) - 1
        if count > 0:
            self._is_cut = True
            del self._times[:count]
            for column in self._columns.values():
                del column[:count]

    def value_at(self, name: str, at_seconds: int) -> int | None:
        """Return the value that a counter had; None if no change of it is known."""
        column = self._columns.get(name)
        if column is None:
            return None
        at = bisect_right(self._times, at_seconds)
        return column[at - 1] if at else self._base.get(name, 0)

    def time_above(self, name: str, value: int) -> int | None:
        """Return when a counter that only grows was first seen above a value.

        None if it is not above it, or if it was so before the first sample.
        """
        column = self._columns.get(name)
        if column is None or self._base.get(name, 0) > value:
            return None
        at = bisect_right(column, value)
        if at == len(column) or (at == 0 and self._is_cut):
            return None
        return self._times[at]


class History:
    """The past values of one object's counters.

    Args:
        resolutions: Finest first.
        base: Values before the first change, by counter.
    """

    __slots__ = ("_series",)

    def __init__(self, resolutions: Sequence[Resolution], base: Mapping[str, int]) -> None:
        self._series = [Series(resolution, base) for resolution in resolutions]

    def add(self, at_seconds: int, values: Mapping[str, int]) -> None:
        """Add the values of a moment, not before that of the last call."""
        for series in self._series:
            series.add(at_seconds, values)

    def time_above(self, name: str, value: int) -> int | None:
        """Return when a counter that only grows was first seen above a value; None: not known."""
        for series in self._series:
            if (found := series.time_above(name, value)) is not None:
                return found
        return None

    def value_at(self, name: str, at_seconds: int, now_seconds: int) -> int | None:
        """Return the value that a counter had; None if no change of it is known.

        Args:
            name: Name of the counter.
            at_seconds: When; a time that no series keeps gets the oldest value that is known.
            now_seconds: The present.
        """
        for series in self._series:
            if at_seconds >= now_seconds - series.resolution.keep_seconds:
                return series.value_at(name, at_seconds)
        return self._series[-1].value_at(name, at_seconds)
