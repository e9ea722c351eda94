"""Parses a position in a log: `first`, `120`, `-20`, `1h`, `2026-08-01T12:00`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from amqp_server.broker.age_text import age_ns
from amqp_server.broker.subscriptions.start_position import (
    START_FIRST,
    START_LAST,
    START_NEXT,
    StartKind,
    StartPosition,
)
from appendlog.layout.format import OFFSET_MAX

HOW_WRITTEN: Final = (
    "write an offset (120), a number from the end (-20), an age (30s, 15m, 1h, 7D), a time "
    "(2026-08-01T12:00, UTC unless it says otherwise), first or earliest, last, next or latest"
)
_NAMED: Final = {
    "first": START_FIRST,
    "earliest": START_FIRST,
    "last": START_LAST,
    "next": START_NEXT,
    "latest": START_NEXT,
}
_OFFSET: Final = re.compile("-?[0-9]{1,19}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_offset_text(text: str, now_ns: int) -> StartPosition:
    """Return the position that a text means.

    Args:
        text: Text that a person wrote.
        now_ns: Time from which ages are subtracted; nanoseconds since 1970 UTC.

    Raises:
        ValueError: The text is no position; the message says how one is written.
    """
    if text in _NAMED:
        return _NAMED[text]
    if _OFFSET.fullmatch(text):
        number = int(text)
        if text.startswith("-"):
            return StartPosition(StartKind.TAIL, -number)
        return StartPosition(StartKind.OFFSET, min(number, OFFSET_MAX))
    age = age_ns(text.encode("utf-8", "surrogateescape"))
    if age is not None:
        return StartPosition(StartKind.TIME, max(now_ns - age, 0))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no place in a log: {HOW_WRITTEN}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    return StartPosition(StartKind.TIME, max(microseconds * 1000, 0))
