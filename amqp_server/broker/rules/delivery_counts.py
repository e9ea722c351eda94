"""Counts of requeues, for the delivery limit and the header `x-delivery-count`.

Adjacent messages with the same count are one run. So the messages that a closed channel returns
cost as much as one message, however many they are. The number of runs is bounded.

Source: RabbitMQ, quorum queues: every requeue of a message counts, whatever caused it; the first
one above the limit drops the message. Without a dead-letter exchange it is lost, which is
logged.
"""

from __future__ import annotations

import logging
from itertools import repeat
from typing import TYPE_CHECKING

from amqp_server.broker.sorted_runs import SortedRuns
from amqp_server.broker.storing.message_run import messages_of
from amqp_server.broker.transfers.message_headers import as_run_with_header, with_header
from amqp_server.protocol.field_values import FieldValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.protocol.large_delivery import LargeMessage
    from offsets.settlement import Settlement

    _Run = tuple[int, int, int]

logger = logging.getLogger("amqp_server.broker.rules.delivery_limit_log")

_PRUNE_MIN = 1024
"""Number of runs from which on settled messages are searched and removed."""
RUNS_MAX = 65_536
"""Most runs that one queue keeps, about 10 MB; before there are more, half is forgotten."""
PART_RUNS = 1024
"""Runs that a call of `prune` examines at least, if there are as many; at most twice as many.

Several times what a step of a requeue adds, so all are examined before there are too many.
"""


class DeliveryCounts:
    """Requeues of one queue's unsettled messages; a message without one has no entry.

    The event loop owns it. Near `RUNS_MAX` runs it forgets, part by part, the half that was
    requeued least often: these messages count as never requeued. The queue's order still knows that
    they are redelivered.

    Args:
        limit: Most requeues of a message; None = no limit.
        runs: Recovered runs: start, end (exclusive) and count, in any order, disjoint.
    """

    def __init__(self, limit: int | None, runs: Iterable[tuple[int, int, int]] = ()) -> None:
        self._limit = limit
        self._prune_at = _PRUNE_MIN
        # Everything below was examined since the search for settled messages began.
        self._pruned_end = 0
        # How many runs of each count were kept since the search began.
        self._seen: dict[int, int] = {}
        # How many runs of each count are still forgotten, because there are too many.
        self._forgotten: dict[int, int] = {}
        self._set(sorted(runs))

    def change_limit(self, limit: int | None) -> None:
        """Change the limit; it counts from the next requeue of each message."""
        self._limit = limit

    def __len__(self) -> int:
        """Return how many messages were requeued. O(runs); some may be settled."""
        return sum(end - start for start, end, _ in self._runs)

    def get(self, offset: int) -> int:
        """Return how often a message was requeued. O(log runs)."""
        run = self._runs.at_or_before(offset)
        return run[2] if run is not None and offset < run[1] else 0

    def with_headers(self, start: int, messages: Messages) -> list[bytes] | LargeMessage:
        """Return messages from `start` on; those that were requeued get `x-delivery-count`.

        Source: RabbitMQ, quorum queues: the header says how often a message was delivered before.
        """
        if len(messages) == 1 and (number := self.get(start)):
            (message,) = messages_of(messages)
            return as_run_with_header(message, "x-delivery-count", FieldValue(b"l", number))
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

    def add(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int, bool]]:
        """Count one requeue of each message of some ranges.

        O(ranges added, times the logarithm of the runs, and the runs within these ranges).

        Args:
            ranges: Ascending, disjoint and not empty.

        Returns:
            Runs as (start, end, whether these messages are above the limit); ascending.
        """
        if not ranges:
            return []
        if len(ranges) > 1:
            between = self._runs.count_between(ranges[0][0], ranges[-1][1])
            if between > len(ranges):
                # One replacement of everything would examine all runs that lie between.
                each = (run for one in ranges for run in self._add((one,)))
                return self._verdicts(list(each))
        return self._verdicts(self._add(ranges))

    def runs(self, ack_floor: int, end: int) -> list[tuple[int, int, int]]:
        """Return the runs below `end`, and forget those below the floor.

        Some of the messages may be settled.
        """
        at_floor = self._runs.at_or_before(ack_floor)
        if at_floor is not None:
            start, stop, _ = at_floor
            self._runs.replace(0, start if stop > ack_floor else ack_floor, [], [])
        return list(self._between(ack_floor, end))

    def prune(self, settlement: Settlement) -> None:
        """Remove settled messages if there may be many, and the lower half if there are too many.

        A call examines one part of the runs; all of them only if one requeue adds so many that
        there are more than `RUNS_MAX`.
        """
        if len(self._runs) < self._prune_at and self._pruned_end == 0:
            return
        self._prune_part(settlement)
        if len(self._runs) > RUNS_MAX:
            runs = sorted(self._runs, key=_count)[-RUNS_MAX // 2 :]
            self._set(sorted(runs))
            self._end_search()

    def _prune_part(self, settlement: Settlement) -> None:
        part = self._runs.some_from(self._pruned_end)
        while 0 < len(part) <= PART_RUNS and (more := self._runs.some_from(part[-1][1])):
            part += more
        # Not only when nothing is left: a requeue at the end would prolong the search each time.
        is_last = len(part) <= PART_RUNS
        if part:
            runs = [
                (low, high, count)
                for start, end, count in part
                if not (self._forgotten and self._forget(count))
                for low, high in _unsettled(settlement, start, end)
            ]
            for _, _, count in runs:
                self._seen[count] = self._seen.get(count, 0) + 1
            self._pruned_end = part[-1][1]
            if len(runs) < len(part):
                keys = [start for start, _, _ in runs]
                self._runs.replace(part[0][0], self._pruned_end, keys, runs)
        if is_last:
            seen = self._seen
            self._end_search()
            count = len(self._runs)
            if count > RUNS_MAX - RUNS_MAX // 4:
                self._forgotten = _lowest(seen, count - RUNS_MAX // 2)
                self._prune_at = 0

    def _forget(self, count: int) -> bool:
        """Return whether a run of this count is one of those that are forgotten."""
        left = self._forgotten.get(count, 0)
        if left:
            self._forgotten[count] = left - 1
        return left > 0

    def _end_search(self) -> None:
        self._pruned_end = 0
        self._seen = {}
        self._forgotten = {}
        self._prune_at = min(max(2 * len(self._runs), _PRUNE_MIN), RUNS_MAX - RUNS_MAX // 4)

    def _set(self, runs: list[_Run]) -> None:
        self._runs: SortedRuns[_Run] = SortedRuns()
        starts = [start for start, _, _ in runs]
        self._runs.replace(0, starts[-1] + 1 if starts else 0, starts, runs)

    def _overlapping(self, start: int, end: int) -> list[_Run]:
        """Return the runs that overlap `[start, end)`, whole."""
        overlapping = self._runs.between(start, end)
        before = self._runs.at_or_before(start)
        if before is not None and before[0] < start < min(before[1], end):
            overlapping.insert(0, before)
        return overlapping

    def _between(self, start: int, end: int) -> Iterator[_Run]:
        """Yield the runs that overlap `[start, end)`, clipped to it."""
        for low, high, count in self._overlapping(start, end):
            yield max(low, start), min(high, end), count

    def _add(self, ranges: Sequence[tuple[int, int]]) -> list[_Run]:
        """Count the ranges and replace all runs from the first to the last; return what counted."""
        # Include the runs that only touch the ranges: they may be joined.
        old = self._overlapping(ranges[0][0] - 1, ranges[-1][1] + 1)
        counted: list[_Run] = []
        joined: list[_Run] = []
        for low, high, count, is_new in _swept(old, ranges):
            run = low, high, count
            if is_new:
                counted.append(run)
            if joined and joined[-1][1] == low and joined[-1][2] == count:
                joined[-1] = joined[-1][0], high, count
            else:
                joined.append(run)
        low = joined[0][0]
        self._runs.replace(low, joined[-1][1], [start for start, _, _ in joined], joined)
        return counted

    def _verdicts(self, counted: list[_Run]) -> list[tuple[int, int, bool]]:
        verdicts: list[tuple[int, int, bool]] = []
        for low, high, count in counted:
            is_over = self._limit is not None and count > self._limit
            if verdicts and verdicts[-1][1] == low and verdicts[-1][2] == is_over:
                verdicts[-1] = verdicts[-1][0], high, is_over
            else:
                verdicts.append((low, high, is_over))
        return verdicts


def _swept(
    old: Sequence[_Run], ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int, bool]]:
    """Yield old runs and new ranges together, cut where they overlap, ascending.

    Yields:
        Start, end, number of requeues, and whether the ranges include this part.
    """
    runs = iter(old)
    run = next(runs, None)
    for start, end in ranges:
        while run is not None and run[0] < end:
            low, high, count = run
            if low < start:
                yield low, min(high, start), count, False
                low = start
            if low < high:
                if start < low:
                    yield start, low, 1, True
                start = min(high, end)
                yield low, start, count + 1, True
            if high > end:
                run = end, high, count
                break
            run = next(runs, None)
        if start < end:
            yield start, end, 1, True
    while run is not None:
        yield *run, False
        run = next(runs, None)


def _unsettled(settlement: Settlement, start: int, end: int) -> Sequence[tuple[int, int]]:
    """Return the unsettled parts of a run; most runs of a long list are single messages."""
    if end - start == 1:
        return () if settlement.is_settled(start) else ((start, end),)
    return settlement.unsettled_ranges(start, end)


def _count(run: _Run) -> int:
    return run[2]


def _lowest(seen: dict[int, int], surplus: int) -> dict[int, int]:
    """Return how many runs of each count are the `surplus` lowest ones."""
    lowest: dict[int, int] = {}
    for count in sorted(seen):
        lowest[count] = min(seen[count], surplus)
        surplus -= lowest[count]
        if surplus == 0:
            break
    return lowest


def log_past_limit(vhost: str, queue: str, limit: int | None, count: int) -> None:
    """Warn that messages passed their delivery limit and are lost; once for each queue and start.

    Args:
        vhost: Name of the queue's virtual host.
        queue: Name of a quorum queue without a dead-letter exchange.
        limit: Delivery limit of the queue.
        count: Messages that it drops now.
    """
    logger.warning(
        "messages dropped vhost=%s queue=%s dropped=%d reason=%s action=%s",
        vhost,
        queue,
        count,
        f"they came back more often than x-delivery-limit={limit} allows, "
        "and the queue has no dead-letter exchange",
        "declare the queue with x-dead-letter-exchange to keep such messages, or with "
        "x-delivery-limit=-1 for no limit; the queue does not say this again",
    )
