"""How often messages were requeued, for the delivery limit and the header `x-delivery-count`.

Adjacent messages with the same count are one run. So the messages that a closed channel returns
cost as much as one message, however many they are. The number of runs is bounded.

Source: RabbitMQ, quorum queues: every requeue of a message counts, whoever caused it; the first
one above the limit drops the message.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import repeat
from typing import TYPE_CHECKING

from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.transfers.message_headers import with_header
from amqp_server.protocol.field_values import FieldValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from amqp_server.broker.storing.message_run import Messages
    from offsets.settlement import Settlement

    _Run = tuple[int, int, int]

_PRUNE_MIN = 1024
"""Number of runs from which on settled messages are searched and removed."""
RUNS_MAX = 65_536
"""Most runs that one queue keeps, about 10 MB; above it the lower half is forgotten."""


class DeliveryCounts:
    """Requeues of one queue's unsettled messages; a message without one has no entry.

    The event loop owns it. Above `RUNS_MAX` runs it forgets the messages that were requeued least
    often: they count as never requeued. The queue's order still knows that they are redelivered.

    Args:
        limit: Most requeues of a message; None = no limit.
        runs: Recovered runs: start, end (exclusive) and count, in any order, disjoint.
    """

    def __init__(self, limit: int | None, runs: Iterable[tuple[int, int, int]] = ()) -> None:
        self._limit = limit
        self._prune_at = _PRUNE_MIN
        self._set(sorted(runs))

    def __len__(self) -> int:
        """Return how many messages were requeued. O(runs); some may be settled."""
        return sum(self._ends) - sum(self._starts)

    def get(self, offset: int) -> int:
        """Return how often a message was requeued. O(log runs)."""
        at = bisect_right(self._starts, offset) - 1
        return self._counts[at] if at >= 0 and offset < self._ends[at] else 0

    def with_headers(self, start: int, messages: Messages) -> list[bytes]:
        """Return messages from `start` on; those that were requeued get `x-delivery-count`.

        Source: RabbitMQ, quorum queues: the header says how often a message was delivered before.
        """
        numbers = self.numbers(start, start + len(messages))
        return [
            with_header(message, "x-delivery-count", FieldValue(b"l", count)) if count else message
            for message, count in zip(messages_of(messages), numbers, strict=True)
        ]

    def numbers(self, start: int, end: int) -> Iterator[int]:
        """Yield for each offset of `[start, end)` how often it was requeued."""
        position = start
        for low, high, count in self._between(start, end):
            yield from repeat(0, low - position)
            yield from repeat(count, high - low)
            position = high
        yield from repeat(0, end - position)

    def add(self, start: int, end: int) -> list[tuple[int, int, bool]]:
        """Count one requeue of each message of `[start, end)`, which is not empty.

        Returns:
            Runs as (start, end, whether these messages are above the limit); ascending.
        """
        counted: list[_Run] = []
        position = start
        for low, high, count in self._between(start, end):
            if position < low:
                counted.append((position, low, 1))
            counted.append((low, high, count + 1))
            position = high
        if position < end:
            counted.append((position, end, 1))
        self._replace(start, end, counted)
        return self._verdicts(counted)

    def runs(self, ack_floor: int, end: int) -> list[tuple[int, int, int]]:
        """Return the runs below `end`, and forget those below the floor.

        Some of the messages may be settled.
        """
        settled = bisect_right(self._ends, ack_floor)
        del self._starts[:settled], self._ends[:settled], self._counts[:settled]
        return list(self._between(ack_floor, end)) if self._starts else []

    def prune(self, settlement: Settlement) -> None:
        """Remove settled messages if there may be many, and the lowest counts above `RUNS_MAX`."""
        if len(self._starts) < self._prune_at:
            return
        runs = [
            (low, high, count)
            for start, end, count in zip(self._starts, self._ends, self._counts, strict=True)
            for low, high in settlement.unsettled_ranges(start, end)
        ]
        if len(runs) > RUNS_MAX:
            # The highest counts matter most, so they stay.
            runs = sorted(sorted(runs, key=_count)[-RUNS_MAX // 2 :])
        self._set(runs)
        self._prune_at = min(max(2 * len(runs), _PRUNE_MIN), RUNS_MAX + 1)

    def _set(self, runs: list[_Run]) -> None:
        self._starts = [start for start, _, _ in runs]
        self._ends = [end for _, end, _ in runs]
        self._counts = [count for _, _, count in runs]

    def _between(self, start: int, end: int) -> Iterator[_Run]:
        """Yield the runs that overlap `[start, end)`, clipped to it."""
        first = bisect_right(self._ends, start)
        last = bisect_left(self._starts, end)
        for at in range(first, last):
            yield max(self._starts[at], start), min(self._ends[at], end), self._counts[at]

    def _replace(self, start: int, end: int, counted: list[_Run]) -> None:
        """Replace the runs of `[start, end)` by `counted`, which covers it; join equal ones."""
        # Include the runs that only touch the range: they may be joined.
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            head = self._starts[first], start, self._counts[first]
            tail = end, self._ends[last - 1], self._counts[last - 1]
            counted = [
                *([head] if head[0] < start else []),
                *counted,
                *([tail] if end < tail[1] else []),
            ]
        joined: list[_Run] = []
        for run in counted:
            if joined and joined[-1][1] == run[0] and joined[-1][2] == run[2]:
                joined[-1] = joined[-1][0], run[1], run[2]
            else:
                joined.append(run)
        self._starts[first:last] = [run[0] for run in joined]
        self._ends[first:last] = [run[1] for run in joined]
        self._counts[first:last] = [run[2] for run in joined]

    def _verdicts(self, counted: list[_Run]) -> list[tuple[int, int, bool]]:
        verdicts: list[tuple[int, int, bool]] = []
        for low, high, count in counted:
            is_over = self._limit is not None and count > self._limit
            if verdicts and verdicts[-1][2] == is_over:
                verdicts[-1] = verdicts[-1][0], high, is_over
            else:
                verdicts.append((low, high, is_over))
        return verdicts


def _count(run: tuple[int, int, int]) -> int:
    return run[2]
