"""Reads a queue a page at a time without consuming, for commands that run for a while.

A worker reads what is in the log. Messages that exist in memory only come from the ring.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amqp_server.broker.storing.journal_requests import up_to

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from appendlog import Log, ReadResult


@dataclass(slots=True)
class LogPage:
    """Consecutive messages of one queue; the lists have equal lengths.

    Attributes:
        next_offset: Offset of the next page; missing offsets below it do not exist any more.
        offsets: Offsets, strictly increasing.
        timestamps_ns: Append times; 0 for a message that exists in memory only.
        messages: Messages as in the log.
        lost: Ranges of offsets below `next_offset` that the log should have, but for damage.
    """

    next_offset: int
    offsets: list[int] = field(default_factory=list)
    timestamps_ns: list[int] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)


async def read_page(
    queue: Queue, start: int, end: int, bytes_max: int, records_max: int
) -> LogPage:
    """Return messages in order, from the first one at or after `start`.

    Args:
        queue: Queue to read; it is not changed.
        start: First offset; less than `end`.
        end: Offset after the last one; not above the queue's `visible_end`.
        bytes_max: Message bytes after which the page ends, >= 1.
        records_max: Most messages, >= 1.

    Raises:
        LogFailedError: The log cannot be read.
    """
    store = queue.store
    if not queue.is_journaled:
        window_start = store.ring.window_start
        if start >= window_start:
            messages = up_to(store.read_memory(start, min(end, start + records_max)), bytes_max)
            behind = start + len(messages)
            return LogPage(behind, list(range(start, behind)), [0] * len(messages), messages)
        # Messages in neither log nor ring were settled before they were written.
        end = min(end, window_start)
    return await asyncio.to_thread(_read_log, store.log, start, end, bytes_max, records_max)


def _read_log(log: Log, start: int, end: int, bytes_max: int, records_max: int) -> LogPage:
    page = _page(log.read(start, bytes_max, records_max))
    if page.next_offset > end:
        # The rest is written but not visible yet.
        count = sum(offset < end for offset in page.offsets)
        del page.offsets[count:], page.timestamps_ns[count:], page.messages[count:]
    if not page.offsets or page.next_offset > end:
        page.next_offset = end
    page.lost = [(first, min(behind, end)) for first, behind in page.lost if first < end]
    return page


def _page(result: ReadResult) -> LogPage:
    return LogPage(
        result.next_offset, result.offsets, result.timestamps_ns, result.messages, result.lost
    )
