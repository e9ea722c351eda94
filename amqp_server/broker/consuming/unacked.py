"""Deliveries of a channel that are not acknowledged yet, kept as runs instead of messages.

A run is a range of delivery tags whose messages have consecutive offsets in one log and went to
one consumer. At full speed one acknowledgement settles one run. A slow consumer that takes single
messages still makes one growing run. Only acknowledgements out of order split runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.sorted_runs import SortedRuns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.consuming.consumer import Consumer
    from amqp_server.broker.consuming.source import Source

STEP_RUNS = 256
"""Most runs of deliveries that one step settles, gathers or restores."""


class UnackedRun:
    """Deliveries `[first_tag, first_tag + count)` of the offsets from `first_offset` on.

    `consumer` is None for messages taken with `basic.get`.
    """

    __slots__ = ("consumer", "count", "first_offset", "first_tag", "source")

    def __init__(
        self,
        first_tag: int,
        count: int,
        source: Source,
        first_offset: int,
        consumer: Consumer | None,
    ) -> None:
        self.first_tag = first_tag
        self.count = count
        self.source = source
        self.first_offset = first_offset
        self.consumer = consumer

    def __eq__(self, other: object) -> bool:
        """Return whether the other is of the same deliveries."""
        return (
            isinstance(other, UnackedRun)
            and self.first_tag == other.first_tag
            and self.count == other.count
            and self.source is other.source
            and self.first_offset == other.first_offset
            and self.consumer is other.consumer
        )

    def __repr__(self) -> str:
        """Return the tags and the offsets."""
        tags = f"[{self.first_tag}, {self.end_tag})"
        return f"UnackedRun({tags} of {self.source!r} at {self.first_offset} to {self.consumer!r})"

    @property
    def end_tag(self) -> int:
        """Delivery tag after the last one."""
        return self.first_tag + self.count

    @property
    def end_offset(self) -> int:
        """Offset after the last one."""
        return self.first_offset + self.count

    def is_continued_by(self, other: UnackedRun) -> bool:
        """Return whether `other` begins where this run ends, in tags and in its log."""
        return (
            self.end_tag == other.first_tag
            and self.end_offset == other.first_offset
            and self.source is other.source
            and self.consumer is other.consumer
        )


class UnackedRuns:
    """The unacked deliveries of one channel, ordered by delivery tag."""

    def __init__(self) -> None:
        self.count = 0
        self._runs: SortedRuns[UnackedRun] = SortedRuns()

    @property
    def run_count(self) -> int:
        """Number of runs, which is what handling all of them costs."""
        return len(self._runs)

    @property
    def first_tag(self) -> int | None:
        """The lowest tag that is outstanding; None if there is none."""
        first = self._runs.first()
        return None if first is None else first.first_tag

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
        last = self._runs.last() if self.count else None
        self.count += count
        if (
            last is not None
            and last.source is source
            and last.consumer is consumer
            and last.end_tag == first_tag
            and last.end_offset == first_offset
        ):
            last.count += count
            return
        run = UnackedRun(first_tag, count, source, first_offset, consumer)
        self._runs.append(first_tag, run)

    def take_up_to(self, tag: int) -> list[UnackedRun] | None:
        """Remove and return all deliveries up to `tag`; None if `tag` is not outstanding."""
        first = self._runs.first()
        if first is not None and first.first_tag + first.count == tag + 1:
            # One run acknowledged as it was delivered, by far the most frequent case.
            self._runs.remove_first()
            self.count -= first.count
            return [first]
        run = self._find(tag)
        if run is None:
            return None
        part = self._cut(run, run.first_tag, tag + 1)
        self.count -= part.count
        first = self._runs.first()
        if first is None or first.first_tag > tag:
            return [part]
        taken = self._runs.replace(first.first_tag, part.first_tag, [], [])
        self.count -= sum(each.count for each in taken)
        taken.append(part)
        return taken

    def take_range(self, first_tag: int, last_tag: int) -> tuple[list[UnackedRun], int | None]:
        """Remove the deliveries `first_tag` to `last_tag`, both included.

        Returns:
            The removed runs, and the first tag that is not outstanding, or None. If there is such
            a tag, nothing from it on is removed.
        """
        first = self._runs.first()
        if (
            first is not None
            and first.first_tag == first_tag
            and last_tag - first_tag + 1 == first.count
        ):
            # One run acknowledged as it was delivered, by far the most frequent case.
            self._runs.remove_first()
            self.count -= first.count
            return [first], None
        taken: list[UnackedRun] = []
        while first_tag <= last_tag:
            run = self._find(first_tag)
            if run is None:
                return taken, first_tag
            part = self._cut(run, first_tag, min(last_tag + 1, run.end_tag))
            self.count -= part.count
            taken.append(part)
            first_tag = part.end_tag
        return taken, None

    def take_all(self) -> list[UnackedRun]:
        """Remove and return all outstanding deliveries, in tag order."""
        self.count -= sum(each.count for each in self._runs)
        return self._runs.take_all()

    def take_some(self, last_tag: int | None = None) -> list[UnackedRun]:
        """Remove and return up to 1,024 runs, in tag order, the lowest first; none if empty.

        Args:
            last_tag: Only deliveries up to this tag, which is outstanding unless all of them are
                taken; None: all.
        """
        if last_tag is not None:
            first = self._runs.first()
            if first is None or first.first_tag > last_tag:
                return []
            if self._runs.some_from(first.first_tag)[-1].end_tag > last_tag:
                return self.take_up_to(last_tag) or []
        taken = self._runs.take_first_chunk()
        self.count -= sum(each.count for each in taken)
        return taken

    def has(self, tag: int) -> bool:
        """Return whether a delivery is outstanding."""
        return self._find(tag) is not None

    def some_from(self, tag: int) -> list[UnackedRun]:
        """Return runs with tags from `tag` on, in tag order, at most 1,025; none if there are none.

        The first of them may begin below `tag`.
        """
        run = self._runs.at_or_before(tag)
        head = [run] if run is not None and tag < run.end_tag else []
        return head + self._runs.some_from(tag + 1)

    def keep_counting(self, runs: list[UnackedRun]) -> None:
        """Keep counting runs that were removed: their acknowledgement is not committed yet."""
        self.count += sum(each.count for each in runs)

    def release(self, runs: list[UnackedRun]) -> None:
        """Stop counting runs that were passed to `keep_counting`."""
        self.count -= sum(each.count for each in runs)

    def restore(self, runs: list[UnackedRun]) -> None:
        """Make runs that were passed to `keep_counting` outstanding again, in their old positions.

        Runs that continue each other are joined. O(runs that are restored).

        Args:
            runs: Runs in any order; their owner forgets them.
        """
        for run in sorted(runs, key=_first_tag):
            before, after = self._runs.neighbours(run.first_tag)
            joined = run
            if before is not None and before.is_continued_by(run):
                before.count += run.count
                joined = before
            else:
                self._runs.insert(run.first_tag, run)
            if after is not None and joined.is_continued_by(after):
                joined.count += after.count
                self._runs.remove(after.first_tag)

    def _find(self, tag: int) -> UnackedRun | None:
        run = self._runs.first()
        if run is None or run.first_tag <= tag < run.first_tag + run.count:
            return run
        run = self._runs.at_or_before(tag)
        return run if run is not None and tag < run.end_tag else None

    def _cut(self, run: UnackedRun, first_tag: int, end_tag: int) -> UnackedRun:
        """Remove and return the part `[first_tag, end_tag)` of a run; the rest stays."""
        skipped = first_tag - run.first_tag
        count = end_tag - first_tag
        left = run.count - skipped - count
        if not skipped and not left:
            self._runs.remove(first_tag)
            return run
        part = UnackedRun(first_tag, count, run.source, run.first_offset + skipped, run.consumer)
        if not skipped:
            run.first_tag = end_tag
            run.first_offset += count
            run.count = left
            self._runs.update(first_tag, end_tag, run)
            return part
        run.count = skipped
        if left:
            rest = UnackedRun(end_tag, left, run.source, part.end_offset, run.consumer)
            self._runs.insert(end_tag, rest)
        return part


def _first_tag(run: UnackedRun) -> int:
    return run.first_tag
