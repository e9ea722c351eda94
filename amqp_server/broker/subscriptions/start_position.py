"""Where a reader of a log starts: the requested position, and its current offset.

`parse_start` only interprets the consumer's argument. `start_offset` looks up the position in the
queue; for a time, a worker searches the indexes of the log.
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
    from amqp_server.broker.subscriptions.readable_queue import ReadableQueue
    from amqp_server.protocol.field_values import FieldValue

OFFSET: Final = "x-stream-offset"
"""Consumer argument: where a consumer of a stream, or a browsing one, starts."""
TIME_NS_MAX: Final = (1 << 63) - 1
"""Latest time that a log can store, in nanoseconds since 1970 UTC."""


class StartKind(Enum):
    """Kinds of positions; they give the number of a `StartPosition` its meaning."""

    FIRST = auto()
    """The oldest message."""
    NEXT = auto()
    """The messages that are published from now on."""
    TAIL = auto()
    """A number of messages before the end, or the oldest message."""
    OFFSET = auto()
    """An offset, or the oldest message above it; above the end, the reader waits for the offset."""
    TIME = auto()
    """The first message at or after a time in nanoseconds since 1970 UTC, or else the next one."""


@dataclass(frozen=True, slots=True)
class StartPosition:
    """A requested position in a log.

    Attributes:
        kind: Meaning of the number.
        number: Value >= 0; 0 if the kind needs none.
    """

    kind: StartKind
    number: int = 0


START_FIRST: Final = StartPosition(StartKind.FIRST)
START_NEXT: Final = StartPosition(StartKind.NEXT)
START_LAST: Final = StartPosition(StartKind.TAIL, 1)
_MOMENT: Final = re.compile(rb"ts:([0-9]{1,19})")
_NAMED: Final = {b"first": START_FIRST, b"last": START_LAST, b"next": START_NEXT}


def parse_start(value: FieldValue | None, now_ns: int) -> StartPosition | None:
    """Return the position in the argument `x-stream-offset`; None if it is not valid.

    Args:
        value: `first`, `last`, `next` (the default); an age such as `1h`; an integer of any
            width, where negative ones count from the end; a timestamp, in seconds, or in
            nanoseconds such as `ts:1700000000000000000`.
        now_ns: Time from which ages count back, in nanoseconds since 1970 UTC.
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


async def start_offset(queue: ReadableQueue, position: StartPosition) -> int:
    """Return the offset at which a reader starts; a worker looks up a time.

    Raises:
        LogFailedError: The log cannot be read.
    """
    if position.kind is StartKind.TIME:
        log = queue.store.log
        found = await asyncio.to_thread(log.first_offset_at, position.number)
        return max(found, queue.first_offset)
    return start_offset_now(queue, position)


def start_offset_now(queue: ReadableQueue, position: StartPosition) -> int:
    """Return the offset at which a reader starts, for all positions except times."""
    first = queue.first_offset
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
            raise AssertionError("a worker must look up a time")


def offset_range(queue: ReadableQueue) -> tuple[int, int]:
    """Return the start of a stream and the end of its visible messages: `[start, end)`."""
    start = queue.first_offset
    # Messages that were refused because the disk was full never became visible.
    return start, max(start, queue.visible_end)


def _at(text: bytes) -> StartPosition | None:
    """Return a time to the nanosecond; timestamps of AMQP have seconds only."""
    match = _MOMENT.fullmatch(text)
    return None if match is None else StartPosition(StartKind.TIME, min(int(match[1]), TIME_NS_MAX))


def _ago(text: bytes, now_ns: int) -> StartPosition | None:
    length_ns = age_ns(text)
    if length_ns is None:
        return None
    return StartPosition(StartKind.TIME, max(now_ns - length_ns, 0))
