"""One line of the audit log."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from amqp_server.audit.actor import Actor

TEXT_CHARACTERS_MAX: Final = 1024
"""Characters of one text that are kept: clients choose names, and may choose long ones."""
ITEMS_MAX: Final = 32
"""Items of one table or list that are kept."""
DEPTH_MAX: Final = 3
"""Tables inside each other that are kept."""
LINE_BYTES_MAX: Final = 16 * 1024
"""Longest line; of a longer one the details are left out."""
_CUT: Final = "..."


def encode_entry(
    time_ns: int,
    event: str,
    actor: Actor,
    vhost: str,
    name: str,
    details: Mapping[str, object] | None,
) -> bytes:
    r"""Return an event as a line of JSON in ASCII, with its line feed.

    Everything that is not printable ASCII is escaped: no name can break a line, or change what a
    terminal shows. Octets that are not UTF-8 are written as `\xff`.

    Args:
        time_ns: Nanoseconds since 1970 UTC.
        event: Name of the event, the thing and what happened: `queue.deleted`.
        actor: Who did it.
        vhost: Virtual host of the object; empty if it has none.
        name: Name of the object; empty if there is none.
        details: More about the event: texts, octets, numbers, truth values, tables and lists.
    """
    entry: dict[str, Any] = {"time": time_text(time_ns), "event": event, "user": _text(actor.user)}
    if actor.peer:
        entry["peer"] = _text(actor.peer)
    if actor.connection:
        entry["connection"] = _text(actor.connection)
    if vhost:
        entry["vhost"] = _text(vhost)
    if name:
        entry["object"] = _text(name)
    if details:
        entry["details"] = _bounded(details, DEPTH_MAX)
    line = _line(entry)
    if len(line) > LINE_BYTES_MAX:
        line = _line(entry | {"details": {"left_out_bytes": len(line)}})
    return line


def time_text(time_ns: int) -> str:
    """Return a time in UTC to the millisecond: `2026-11-22T04:13:25.123Z`.

    Args:
        time_ns: Nanoseconds since 1970 UTC.
    """
    moment = datetime.fromtimestamp(time_ns // 1_000_000 / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def _line(entry: Mapping[str, object]) -> bytes:
    text = json.dumps(entry, separators=(",", ":"))
    return text.replace("\x7f", "\\u007f").encode("ascii") + b"\n"


def _text(text: str) -> str:
    if len(text) > TEXT_CHARACTERS_MAX:
        text = text[:TEXT_CHARACTERS_MAX] + _CUT
    if text.isascii():
        return text
    # Names off the wire have surrogates for octets that are not UTF-8.
    octets = text.encode("utf-8", "surrogateescape") if _is_wire_text(text) else None
    return text if octets is None else octets.decode("utf-8", "backslashreplace")


def _is_wire_text(text: str) -> bool:
    return any("\udc80" <= character <= "\udcff" for character in text)


def _bounded(value: object, depth: int) -> object:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return _text(value)
        case bytes() | bytearray():
            octets = bytes(value[: TEXT_CHARACTERS_MAX + 1])
            return _text(octets.decode("utf-8", "backslashreplace"))
        case dict() if depth:
            items = list(value.items())[:ITEMS_MAX]
            return {_text(str(key)): _bounded(each, depth - 1) for key, each in items}
        case list() | tuple() if depth:
            return [_bounded(each, depth - 1) for each in value[:ITEMS_MAX]]
    return _text(str(value)) if not isinstance(value, dict | list | tuple) else _CUT
