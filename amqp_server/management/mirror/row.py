"""One object of the broker, as the mirror shows it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqp_server.management.mirror.series import History

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amqp_server.management.mirror.series import Resolution

STEP_SECONDS: Final = 5
"""Seconds between two samples of the finest resolution."""
GAUGES: Final = (
    "messages",
    "messages_ready",
    "messages_unacknowledged",
    "recv_oct",
    "send_oct",
    "recv_cnt",
    "send_cnt",
)
"""Fields of any object, beside its `message_stats`, of which samples are kept."""


class Samples(NamedTuple):
    """Past values of one counter.

    Attributes:
        rate: Change a second in the last five seconds.
        avg_rate: Change a second from the oldest to the newest sample.
        avg: Mean of the samples.
        samples: Pairs of Unix time in milliseconds and value, the newest first.
    """

    rate: float
    avg_rate: float
    avg: float
    samples: list[tuple[int, float]]


GAP_SECONDS: Final = 15
"""Longest time between two samples that is no gap: a busy broker may answer late."""
_GAPS_MAX: Final = 500


class Ticks:
    """When samples were taken last; the rows of a mirror share it.

    Attributes:
        first_seconds: Unix time of the first samples; 0 before.
        last_seconds: Unix time of the last sample.
        gaps: Pairs of Unix times between which no sample was taken, because the machine slept or
            the broker did not answer; the newest last.
    """

    __slots__ = ("first_seconds", "gaps", "last_seconds")

    def __init__(self) -> None:
        self.first_seconds = 0
        self.last_seconds = 0
        self.gaps: deque[tuple[int, int]] = deque(maxlen=_GAPS_MAX)

    def tick(self, at_seconds: int) -> None:
        """Note that samples are taken.

        Args:
            at_seconds: Unix time of the samples.
        """
        if self.last_seconds and at_seconds - self.last_seconds > GAP_SECONDS:
            self.gaps.append((self.last_seconds, at_seconds))
        self.last_seconds = at_seconds
        self.first_seconds = self.first_seconds or at_seconds


class Row:
    """One object of the broker. The mirror changes it in place.

    Args:
        ticks: When samples are taken.
        resolutions: How its samples are kept.
        is_new: Whether the object began while the mirror was there: its counters began at 0.
        counted: Fields of which samples are kept, beside `message_stats`.

    Attributes:
        fields: What is shown of the object, by RabbitMQ's names and ours.
        number: Number of the object in the broker's reports.
        reported_seconds: When the broker has reported a queue last, Unix time.
        key: Name or names by which the mirror finds it.
    """

    __slots__ = (
        "_counted",
        "_first_seconds",
        "_history",
        "_is_new",
        "_resolutions",
        "_ticks",
        "fields",
        "key",
        "number",
        "reported_seconds",
    )

    def __init__(
        self,
        ticks: Ticks,
        resolutions: Sequence[Resolution],
        *,
        is_new: bool,
        counted: Sequence[str] = GAUGES,
    ) -> None:
        self.fields: dict[str, Any] = {}
        self.number = 0
        self.key: Any = None
        self.reported_seconds = 0.0
        self._first_seconds = ticks.last_seconds and ticks.last_seconds + STEP_SECONDS
        self._counted = counted
        self._history: History | None = None
        self._is_new = is_new
        self._resolutions = resolutions
        self._ticks = ticks

    @property
    def first_seconds(self) -> int:
        """When the first sample of it is taken, Unix time; 0 before the mirror took any.

        What samples say of the time before is the value that it began with.
        """
        return self._first_seconds or self._ticks.first_seconds

    def gaps(self, since_seconds: int) -> list[tuple[int, int]]:
        """Return the times without samples.

        Args:
            since_seconds: Only gaps that end after this Unix time.

        Returns:
            Pairs of Unix times of the samples before and after, the oldest first.
        """
        oldest = max(since_seconds, self.first_seconds)
        return [gap for gap in self._ticks.gaps if gap[1] > oldest]

    def begin_change(self) -> None:
        """Keep the present values before their first change."""
        if self._history is None and not self._is_new:
            self._history = History(self._resolutions, self._counters())

    def sample(self) -> None:
        """Take a sample of the present values at the last tick, because some have changed."""
        counters = self._counters()
        self._is_new = False
        if self._history is None:
            if not counters:
                # It exists, and that is all.
                return
            self._history = History(self._resolutions, {})
        self._history.add(self._ticks.last_seconds, counters)

    @property
    def has_published(self) -> bool:
        """Whether messages were published on the channel."""
        return bool(self.fields.get("message_stats", {}).get("publish"))

    def time_above(self, counter: str, value: int) -> int | None:
        """Return when a counter that only grows was first seen above a value, in Unix seconds.

        None if no sample tells: it happened before the samples, or after the last one.
        """
        return None if self._history is None else self._history.time_above(counter, value)

    def samples_tell(self, counter: str, value: int) -> bool:
        """Return whether a counter was at a value, or below, when the last sample was taken."""
        if self._history is None:
            return self._is_new
        now = self._ticks.last_seconds
        newest = self._history.value_at(counter, now, now)
        return newest is not None and newest <= value

    def rate(self, counter: str) -> float:
        """Return by how much a counter changed a second, between the last two samples.

        Args:
            counter: A field, or with a dot one of a field's values: `message_stats.publish`.
        """
        if self._history is None:
            return 0.0
        now = self._ticks.last_seconds
        newest = self._history.value_at(counter, now, now)
        before = self._history.value_at(counter, now - STEP_SECONDS, now)
        return 0.0 if newest is None or before is None else (newest - before) / STEP_SECONDS

    def samples(self, counter: str, age_seconds: int, incr_seconds: int) -> Samples:
        """Return past values of a counter.

        Args:
            counter: As for `rate`.
            age_seconds: Age of the oldest, >= 0.
            incr_seconds: Time between two of them, >= 1.
        """
        now = self._ticks.last_seconds
        newest = now - now % incr_seconds
        history = self._history
        present = self._present(counter)
        found: list[tuple[int, float]] = []
        for back in range(age_seconds // incr_seconds + 1):
            at = newest - back * incr_seconds
            value = None if history is None else history.value_at(counter, at, now)
            found.append((at * 1000, present if value is None else value))
        first, last = found[-1], found[0]
        seconds = (last[0] - first[0]) / 1000
        return Samples(
            self.rate(counter),
            (last[1] - first[1]) / seconds if seconds else 0.0,
            sum(value for _, value in found) / len(found),
            found,
        )

    def _present(self, counter: str) -> float:
        value: Any = self.fields
        for name in counter.split("."):
            value = value.get(name, 0) if isinstance(value, dict) else 0
        return value if isinstance(value, int | float) else 0

    def _counters(self) -> dict[str, int]:
        """Return the present values that are sampled; those that are 0 may be missing."""
        fields = self.fields
        counters = {name: fields[name] for name in self._counted if fields.get(name)}
        stats: Mapping[str, int] = fields.get("message_stats", {})
        for name, value in stats.items():
            counters["message_stats." + name] = value
        return counters
