"""Where a reader of a log begins: what is asked for, and which offset that is now.

`parse_start` understands the argument of a consumer and looks at nothing else; `start_offset`
asks the queue. A place in time is looked up in the log's indexes, by a worker.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from amqp_server.broker.age_text import age_ns
from amqp_server.protocol.field_comparison import INTEGER_KINDS
from appendlog.layout.format import OFFSET_MAX

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue
    from amqp_server.protocol.field_values import FieldValue

OFFSET: Final = "x-stream-offset"
"""Where a consumer of a stream, or one that browses, begins."""
TIME_NS_MAX: Final = (1 << 63) - 1
"""The last moment that a log can tell, in nanoseconds since 1970 UTC."""


class StartKind(Enum):
    """Kinds of places; the number of a `StartPosition` says which one of its kind."""

    FIRST = auto()
    """The oldest message there is."""
    NEXT = auto()
    """What is published from now on."""
    TAIL = auto()
    """So many messages before the end, or the oldest one."""
    OFFSET = auto()
    """An offset: at least the oldest one; behind the end, what is between is waited for."""
    TIME = auto()
    """The first message at or after a time in nanoseconds since 1970 UTC; else what comes next."""


@dataclass(frozen=True, slots=True)
class StartPosition:
    """A place in a log.

    Attributes:
        kind: What the number means.
        number: >= 0; 0 where the kind needs none.
    """

    kind: StartKind
    number: int = 0


START_FIRST: Final = StartPosition(StartKind.FIRST)
START_NEXT: Final = StartPosition(StartKind.NEXT)
START_LAST: Final = StartPosition(StartKind.TAIL, 1)
_MOMENT: Final = re.compile(rb"ts:([0-9]{1,19})")
_NAMED: Final = {b"first": START_FIRST, b"last": START_LAST, b"next": START_NEXT}


def parse_start(value: FieldValue | None, now_ns: int) -> StartPosition | None:
    """Return what the argument `x-stream-offset` asks for; None if it cannot be understood.

    Args:
        value: `first`, `last`, `next` (also when absent); an age as in `1h`; an integer of any
            width, a negative one for so many messages before the end; a timestamp, in seconds,
            or in nanoseconds as in `ts:1700000000000000000`.
        now_ns: Ages are counted back from it; nanoseconds since 1970 UTC.
    """
    if value is None:
        return START_NEXT
    match value.value:
        case bytes(text) if value.kind == b"S":
            return _NAMED.get(text) or _at(text) or _ago(text, now_ns)
        case int(number) if value.kind == b"T":
            return StartPosition(StartKind.TIME, min(number * 10**9, TIME_NS_MAX))
        case int(number) if value.kind in INTEGER_KINDS and number >= 0:
            return StartPosition(StartKind.OFFSET, min(number, OFFSET_MAX))
        case int(number) if value.kind in INTEGER_KINDS:
            return StartPosition(StartKind.TAIL, -number)
    return None


async def start_offset(queue: Queue, position: StartPosition) -> int:
    """Return the offset that a reader begins at; a worker looks for a place in time.

    Raises:
        LogFailedError: The log cannot be read.
    """
    if position.kind is StartKind.TIME:
        log = queue.store.log
        found = await asyncio.to_thread(log.first_offset_at, position.number)
        return max(found, first_offset(queue))
    return start_offset_now(queue, position)


def start_offset_now(queue: Queue, position: StartPosition) -> int:
    """Return the offset that a reader begins at, for all but places in time."""
    first = first_offset(queue)
    match position.kind:
        case StartKind.FIRST:
            return first
        case StartKind.NEXT:
            return queue.store.end_offset
        case StartKind.TAIL:
            return max(first, queue.visible_end - position.number)
        case StartKind.OFFSET:
            return max(first, position.number)
        case StartKind.TIME:
            raise AssertionError("a place in time has to be looked for")


def first_offset(queue: Queue) -> int:
    """Return the offset of the oldest message that can be read, or where it would be.

    A stream has let go of what is settled, though the files of it may still be there.
    """
    start = queue.store.log.log_start_offset
    return max(start, queue.settlement.ack_floor) if queue.is_stream else start


def offset_range(queue: Queue) -> tuple[int, int]:
    """Return where a stream begins, and the end of what may be seen of it: `[start, end)`."""
    start = first_offset(queue)
    # What was refused for want of room is gone before it could ever be seen.
    return start, max(start, queue.visible_end)


def _at(text: bytes) -> StartPosition | None:
    """Return a moment to the nanosecond: timestamps of AMQP tell seconds only."""
    match = _MOMENT.fullmatch(text)
    return None if match is None else StartPosition(StartKind.TIME, min(int(match[1]), TIME_NS_MAX))


def _ago(text: bytes, now_ns: int) -> StartPosition | None:
    length_ns = age_ns(text)
    if length_ns is None:
        return None
    return StartPosition(StartKind.TIME, max(now_ns - length_ns, 0))
