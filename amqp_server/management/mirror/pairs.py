"""What channels, exchanges and queues did with each other: the counters of their pairs.

There may be ten times as many pairs as objects, so a pair keeps its last two samples alone.
"""

from __future__ import annotations

from operator import sub
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqp_server.management.mirror.fields import message_stats, text_of
from amqp_server.management.mirror.row import STEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from amqp_server.management.mirror.row import Ticks

Key = str | tuple[str, str]
"""Name of a channel; virtual host and name of an exchange or a queue."""
PAIR_KINDS: Final = {
    "publishes": ("channel", "exchange"),
    "deliveries": ("channel", "queue"),
    "incoming": ("exchange", "queue"),
}
"""For each kind of pairs what they consist of."""


class PairRates(NamedTuple):
    """Counters that are not 0, and how much each has grown a second between the last samples."""

    stats: dict[str, int]
    rates: dict[str, float]


class Pair:
    """The counters of one pair.

    Args:
        ends: Keys of what it consists of.
        columns: Names of its counters.
        base: What they were before the mirror saw the pair first.
    """

    __slots__ = ("_before", "_columns", "_newest", "_sampled_seconds", "ends", "values")

    def __init__(self, ends: tuple[Key, Key], columns: Sequence[str], base: Sequence[int]) -> None:
        self.ends = ends
        self.values = base
        self._columns = columns
        self._before = self._newest = base
        self._sampled_seconds = 0

    @property
    def stats(self) -> dict[str, int]:
        """The counters that are not 0, by RabbitMQ's names."""
        return message_stats(dict(zip(self._columns, self.values, strict=True)))

    def sample(self, at_seconds: int) -> None:
        """Take a sample of the present values."""
        self._before, self._newest = self._newest, self.values
        self._sampled_seconds = at_seconds

    def at(self, now_seconds: int) -> PairRates:
        """Return the counters and their rates, as of the last samples of the mirror."""
        rates: dict[str, float] = {}
        if self._sampled_seconds == now_seconds:
            grown = map(sub, self._newest, self._before)
            new = message_stats(dict(zip(self._columns, grown, strict=True)))
            rates = {name: count / STEP_SECONDS for name, count in new.items()}
        return PairRates(self.stats, rates)


class Pairs:
    """All pairs of one kind, and which of them an object belongs to.

    Args:
        kind: One of `PAIR_KINDS`.
        ticks: When samples are taken.
    """

    def __init__(self, kind: str, ticks: Ticks) -> None:
        self._ends = PAIR_KINDS[kind]
        self._ticks = ticks
        self._by_number: dict[int, Pair] = {}
        # By each end: the numbers of its pairs.
        self._of: tuple[dict[Key, dict[int, None]], dict[Key, dict[int, None]]] = ({}, {})
        self._changed: dict[Pair, None] = {}
        self._reported: set[int] | None = None

    def __iter__(self) -> Iterator[Pair]:
        """Iterate over all pairs."""
        return iter(tuple(self._by_number.values()))

    def of(self, end: str, key: Key) -> list[tuple[Key, PairRates]]:
        """Return what one object did with each other one, and the key of that.

        Args:
            end: What it is: `channel`, `exchange` or `queue`.
            key: Its key.
        """
        at = self._ends.index(end)
        pairs = (self._by_number[number] for number in self._of[at].get(key, ()))
        return [(pair.ends[1 - at], pair.at(self._ticks.last_seconds)) for pair in pairs]

    def take(
        self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, is_first: bool
    ) -> None:
        """Change what a report says; the arguments are those of `Table.take`."""
        for number, attributes, *values in rows:
            if self._reported is not None:
                self._reported.add(number)
            pair = self._by_number.get(number)
            if pair is None:
                if attributes is None:
                    continue
                ends = (_key(attributes, self._ends[0]), _key(attributes, self._ends[1]))
                base = values if is_first else [0] * len(values)
                pair = self._by_number[number] = Pair(ends, columns, base)
                for index, end in zip(self._of, ends, strict=True):
                    index.setdefault(end, {})[number] = None
            pair.values = values
            self._changed[pair] = None

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove pairs that are gone; unknown numbers are ignored."""
        for number in numbers:
            pair = self._by_number.pop(number, None)
            if pair is None:
                continue
            self._changed.pop(pair, None)
            for index, end in zip(self._of, pair.ends, strict=True):
                of_end = index[end]
                del of_end[number]
                if not of_end:
                    del index[end]

    def remove_of(self, end: str, key: Key) -> None:
        """Remove the pairs of one object, which is gone; the arguments are those of `of`."""
        self.remove(tuple(self._of[self._ends.index(end)].get(key, ())))

    def begin_whole(self) -> None:
        """Record which pairs are reported until `end_whole`, because all are reported."""
        self._reported = set()

    def end_whole(self) -> None:
        """Remove the pairs that were not reported since `begin_whole`."""
        if self._reported is not None:
            reported, self._reported = self._reported, None
            self.remove([number for number in self._by_number if number not in reported])

    def clear(self) -> None:
        """Remove everything: the broker has started again."""
        self.remove(tuple(self._by_number))
        self._reported = None

    def take_samples(self) -> None:
        """Take samples of the pairs that have changed since the last call."""
        changed, self._changed = self._changed, {}
        for pair in changed:
            pair.sample(self._ticks.last_seconds)


def _key(attributes: Mapping[str, Any], end: str) -> Key:
    if end == "channel":
        return f"{attributes['connection']} ({attributes['number']})"
    return text_of(attributes, "vhost"), text_of(attributes, end)
