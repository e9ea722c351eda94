"""Reading a queue piece by piece without consuming: for commands, which take their time.

What is in the log is read by a worker; only what a queue has in memory alone comes from there.
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
    """Neighbouring messages of one queue; the lists are as long as each other.

    Attributes:
        next_offset: Where to go on; what is missing below it is not there any more.
        offsets: Strictly increasing.
        timestamps_ns: When each was appended; 0 of one that is in memory alone.
        messages: As the log has them.
    """

    next_offset: int
    offsets: list[int] = field(default_factory=list)
    timestamps_ns: list[int] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)


async def read_page(
    queue: Queue, start: int, end: int, bytes_max: int, records_max: int
) -> LogPage:
    """Return the messages from the first one at or after `start` on, in order.

    Args:
        queue: Nothing changes in it.
        start: First offset; less than `end`.
        end: Exclusive; not above the queue's `visible_end`.
        bytes_max: Of messages, >= 1: none follows once it is reached.
        records_max: >= 1.

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
        # What is in neither of the two was settled before it was ever written.
        end = min(end, window_start)
    return await asyncio.to_thread(_read_log, store.log, start, end, bytes_max, records_max)


def _read_log(log: Log, start: int, end: int, bytes_max: int, records_max: int) -> LogPage:
    page = _page(log.read(start, bytes_max, records_max))
    if page.next_offset > end:
        # Written, but not to be seen yet.
        count = sum(offset < end for offset in page.offsets)
        del page.offsets[count:], page.timestamps_ns[count:], page.messages[count:]
    if not page.offsets or page.next_offset > end:
        page.next_offset = end
    return page


def _page(result: ReadResult) -> LogPage:
    return LogPage(result.next_offset, result.offsets, result.timestamps_ns, result.messages)
