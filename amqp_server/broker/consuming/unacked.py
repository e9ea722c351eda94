"""Deliveries of a channel that are not acknowledged yet, kept as runs instead of messages.

A run is a range of delivery tags whose messages have consecutive offsets in one log and went to
one consumer. At full speed one acknowledgement settles one run. A slow consumer that takes single
messages still makes one growing run. Only acknowledgements out of order split runs.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.source import Source


@dataclass(slots=True)
class UnackedRun:
    """Deliveries `[first_tag, first_tag + count)` of the offsets from `first_offset` on.

    `consumer` is None for messages taken with `basic.get`.
    """

    first_tag: int
    count: int
    source: Source
    first_offset: int
    consumer: Consumer | None

    @property
    def end_tag(self) -> int:
        """Delivery tag after the last one."""
        return self.first_tag + self.count

    @property
    def end_offset(self) -> int:
        """Offset after the last one."""
        return self.first_offset + self.count


class UnackedRuns:
    """The unacked deliveries of one channel, ordered by delivery tag."""

    def __init__(self) -> None:
        self.count = 0
        self._runs: list[UnackedRun] = []

    def __iter__(self) -> Iterator[UnackedRun]:
        """Iterate over the runs in tag order; the caller must not change them during the loop."""
        return iter(self._runs)

    def add(
        self,
        first_tag: int,
        count: int,
        source: Source,
        first_offset: int,
        consumer: Consumer | None,
    ) -> None:
        """Record deliveries with tags above all others; extend the last run if they continue it."""
        self.count += count
        if self._runs:
            last = self._runs[-1]
            if (
                last.source is source
                and last.consumer is consumer
                and last.end_tag == first_tag
                and last.end_offset == first_offset
            ):
                last.count += count
                return
        self._runs.append(UnackedRun(first_tag, count, source, first_offset, consumer))

    def take_up_to(self, tag: int) -> list[UnackedRun] | None:
        """Remove and return all deliveries up to `tag`; None if `tag` is not outstanding."""
        at = self._find(tag)
        if at is None:
            return None
        run = self._runs[at]
        taken = self._runs[:at]
        part = tag + 1 - run.first_tag
        if part == run.count:
            taken.append(run)
            del self._runs[: at + 1]
        else:
            taken.append(self._cut_head(run, part))
            del self._runs[:at]
        self.count -= sum(each.count for each in taken)
        return taken

    def take_range(self, first_tag: int, last_tag: int) -> tuple[list[UnackedRun], int | None]:
        """Remove the deliveries `first_tag` to `last_tag`, both included.

        Returns:
            The removed runs, and the first tag that is not outstanding, or None. If there is such
            a tag, nothing from it on is removed.
        """
        taken: list[UnackedRun] = []
        while first_tag <= last_tag:
            at = self._find(first_tag)
            if at is None:
                return taken, first_tag
            part = self._cut(at, first_tag, min(last_tag + 1, self._runs[at].end_tag))
            self.count -= part.count
            taken.append(part)
            first_tag = part.end_tag
        return taken, None

    def take_all(self) -> list[UnackedRun]:
        """Remove and return all outstanding deliveries, in tag order."""
        taken, self._runs = self._runs, []
        self.count -= sum(each.count for each in taken)
        return taken

    def hold(self, runs: list[UnackedRun]) -> None:
        """Keep counting runs that were removed: their acknowledgement is not committed yet."""
        self.count += sum(each.count for each in runs)

    def release(self, runs: list[UnackedRun]) -> None:
        """Stop counting runs that were passed to `hold`."""
        self.count -= sum(each.count for each in runs)

    def restore(self, runs: list[UnackedRun]) -> None:
        """Make runs that were passed to `hold` outstanding again, in their old positions."""
        self._runs = sorted([*self._runs, *runs], key=lambda run: run.first_tag)

    def _find(self, tag: int) -> int | None:
        if self._runs and self._runs[0].first_tag <= tag < self._runs[0].end_tag:
            return 0
        at = bisect_right(self._runs, tag, key=lambda run: run.first_tag) - 1
        return at if at >= 0 and tag < self._runs[at].end_tag else None

    def _cut_head(self, run: UnackedRun, part: int) -> UnackedRun:
        head = UnackedRun(run.first_tag, part, run.source, run.first_offset, run.consumer)
        run.first_tag += part
        run.first_offset += part
        run.count -= part
        return head

    def _cut(self, at: int, first_tag: int, end_tag: int) -> UnackedRun:
        run = self._runs[at]
        if end_tag < run.end_tag:
            after = UnackedRun(
                end_tag,
                run.end_tag - end_tag,
                run.source,
                run.first_offset + end_tag - run.first_tag,
                run.consumer,
            )
            self._runs.insert(at + 1, after)
            run.count = end_tag - run.first_tag
        if first_tag == run.first_tag:
            del self._runs[at]
            return run
        tail = UnackedRun(
            first_tag,
            end_tag - first_tag,
            run.source,
            run.first_offset + first_tag - run.first_tag,
            run.consumer,
        )
        run.count = first_tag - run.first_tag
        return tail
