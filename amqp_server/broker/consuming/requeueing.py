"""Deliveries on their way back to their queues: gathered in any order, returned by offset.

A queue with priorities delivers messages of two levels as one run after the other, each a run of
its own where they were published in turn. Gathered first, they are one range again, and the queue
handles them together. A queue also gets its first messages back first.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from amqp_server.broker.merged_ranges import merged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from amqp_server.broker.consuming.source import Source
    from amqp_server.broker.consuming.unacked import UnackedRun

    _Range = tuple[int, int]

STEP_RANGES = 256
"""Most ranges that a source gets back in one step."""
STEP_MESSAGES = 1024
"""Most messages that a source gets back in one step: each may have a priority of its own."""
_PAGE_OFFSETS: Final = 4096
"""Offsets whose ranges are sorted together: a step never sorts more ranges than this."""


class Requeueing:
    """Deliveries that return to their queues. They are neither unacked nor ready meanwhile."""

    def __init__(self) -> None:
        # By source, and by the page in which they begin.
        self._pages: dict[Source, defaultdict[int, list[_Range]]] = {}

    @property
    def sources(self) -> Collection[Source]:
        """The sources that deliveries were added for."""
        return self._pages.keys()

    def add(self, runs: Sequence[UnackedRun]) -> list[Source]:
        """Add deliveries; return the sources that had none before."""
        new: list[Source] = []
        source, pages = None, None
        for run in runs:
            if run.source is not source or pages is None:
                source = run.source
                pages = self._pages.get(source)
                if pages is None:
                    pages = self._pages[source] = defaultdict(list)
                    new.append(source)
            start = run.first_offset
            pages[start // _PAGE_OFFSETS].append((start, start + run.count))
        return new

    def steps(self) -> Iterator[tuple[Source, list[_Range]]]:
        """Remove the deliveries, in parts of a bounded size; each has the ranges of one source.

        The ranges of a source are ascending, from part to part too.
        """
        for source, pages in self._pages.items():
            for page in sorted(pages):
                for part in _parts(merged(pages.pop(page))):
                    yield source, part


def _parts(ranges: Sequence[_Range]) -> Iterator[list[_Range]]:
    """Yield ascending ranges in parts for one step each; cuts long ranges."""
    part: list[_Range] = []
    room = STEP_MESSAGES
    for start, end in ranges:
        at = start
        while at < end:
            if room == 0 or len(part) == STEP_RANGES:
                yield part
                part, room = [], STEP_MESSAGES
            stop = min(at + room, end)
            part.append((at, stop))
            room -= stop - at
            at = stop
    if part:
        yield part
