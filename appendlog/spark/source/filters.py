"""Turns filters of a query into bounds of what is read.

Spark checks every filter again on the rows. So a bound may be too wide, but never too narrow, and
an unknown filter bounds nothing. Spark has filters for Python data sources since 4.1.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from appendlog.spark.source.row_bounds import RowBounds

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NS_PER_US: Final = 1000
_OFFSET: Final = ("offset",)
_TIMESTAMP: Final = ("timestamp",)
_TOPIC: Final = ("topic",)


@dataclass(frozen=True, slots=True)
class _Interval:
    """Integers of `[low, high)`; None is no bound."""

    low: int | None
    high: int | None

    def times(self, factor: int) -> Self:
        """Return the integers that are in this interval after floor division by `factor`."""
        low, high = self.low, self.high
        return type(self)(
            None if low is None else low * factor, None if high is None else high * factor
        )


def bounds_of_filters(filters: Iterable[Filter]) -> RowBounds:
    """Return bounds that contain all rows for which all filters are true."""
    bounds = RowBounds()
    for each in filters:
        column = getattr(each, "attribute", None)
        if column == _TOPIC:
            bounds = bounds.within(topics=_topics(each))
        elif column == _OFFSET and (found := _interval(each, _whole)) is not None:
            bounds = bounds.within(offsets=(found.low, found.high))
        elif column == _TIMESTAMP and (found := _interval(each, _microseconds)) is not None:
            found = found.times(_NS_PER_US)
            bounds = bounds.within(times_ns=(found.low, found.high))
    return bounds


def _topics(each: Filter) -> frozenset[str] | None:
    if isinstance(each, EqualTo | EqualNullSafe) and isinstance(each.value, str):
        return frozenset({each.value})
    if isinstance(each, In) and all(isinstance(value, str) for value in each.value):
        return frozenset(each.value)
    return None


def _interval(each: Filter, number: Callable[[object], int | None]) -> _Interval | None:
    if isinstance(each, In):
        values = [found for value in each.value if (found := number(value)) is not None]
        if not values or len(values) < len(each.value):
            return None
        return _Interval(min(values), max(values) + 1)
    value = number(getattr(each, "value", None))
    if value is None:
        return None
    match each:
        case EqualTo() | EqualNullSafe():
            return _Interval(value, value + 1)
        case GreaterThan():
            return _Interval(value + 1, None)
        case GreaterThanOrEqual():
            return _Interval(value, None)
        case LessThan():
            return _Interval(None, value)
        case LessThanOrEqual():
            return _Interval(None, value + 1)
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _microseconds(value: object) -> int | None:
    """Return a time in microseconds, as rows have it; None for a time without a zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(microseconds=1)
