"""Converts octets and times to JSON; octets that are not UTF-8 get a base64 key."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def octets_json(name: str, octets: bytes) -> dict[str, str]:
    """Return `{name: text}` for valid UTF-8, `{name_base64: ...}` for other octets."""
    try:
        return {name: octets.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(octets).decode("ascii")}


def text_json(name: str, text: str) -> dict[str, str]:
    """Return the same for text off the wire, whose invalid octets are surrogate escapes."""
    return octets_json(name, text.encode("utf-8", "surrogateescape"))


def time_text(timestamp_ns: int) -> str | None:
    """Return a time in UTC to the microsecond; None for 0 and for values that are no time."""
    try:
        moment = _EPOCH + timedelta(microseconds=timestamp_ns // 1000)
    except OverflowError:
        return None
    return moment.isoformat(timespec="microseconds") if timestamp_ns else None
