"""Where a group is to go, as people write it: `earliest`, `latest`, an offset, a time, an age.

What a text means is looked up in each log when the command is done; a place in time by a worker.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from amqp_server.broker.age_text import age_ns
from amqp_server.broker.subscriptions.start_position import (
    START_FIRST,
    START_NEXT,
    StartKind,
    StartPosition,
    start_offset,
)
from amqp_server.control.messages import ControlError, ErrorKind
from appendlog.layout.format import OFFSET_MAX

if TYPE_CHECKING:
    from amqp_server.broker.queue import Queue

_NUMBER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_NAMED: Final = {"earliest": START_FIRST, "latest": START_NEXT}


def parse_target(text: str, now_ns: int) -> StartPosition:
    """Return the place that a text asks for.

    Args:
        text: `earliest`; `latest`; an offset; `-N`: N messages before the end; a moment as in
            `2026-11-21T10:00:00Z`, without a zone UTC; an age as in `1h` or `7D`.
        now_ns: Ages are counted back from it; nanoseconds since 1970 UTC.

    Raises:
        ControlError: It is none of these.
    """
    if text in _NAMED:
        return _NAMED[text]
    if _NUMBER.fullmatch(text):
        number = int(text)
        if text.startswith("-"):
            return StartPosition(StartKind.TAIL, -number)
        return StartPosition(StartKind.OFFSET, min(number, OFFSET_MAX))
    age = age_ns(text.encode(errors="replace"))
    moment_ns = now_ns - age if age is not None else _moment_ns(text)
    return StartPosition(StartKind.TIME, max(moment_ns, 0))


async def target_offset(queue: Queue, target: StartPosition) -> int:
    """Return the offset in one log; an offset that was asked for as it is, to be checked.

    Raises:
        LogFailedError: The log cannot be read.
    """
    if target.kind is StartKind.OFFSET:
        return target.number
    if target.kind is StartKind.NEXT:
        # What was published before is not meant, and has its offset only on the disk.
        end = queue.store.end_offset
        await queue.store.make_durable()
        return min(end, queue.visible_end)
    return min(await start_offset(queue, target), queue.visible_end)


def _moment_ns(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ControlError(
            ErrorKind.INVALID_ARGUMENT,
            f"'{text[:64]}' is no place in a log: earliest, latest, an offset, -N (messages before "
            "the end), a time as 2026-11-21T10:00:00Z or an age as 1h or 7D is expected",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
