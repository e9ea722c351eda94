"""Reads the audit log backwards, a page at a time: the newest events first."""

from __future__ import annotations

import heapq
import json
import os
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amqp_server.audit.audit_files import DIRECTORY_NAME, file_name, file_numbers
from amqp_server.audit.audit_log import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

READ_BYTES: Final = 64 * 1024
"""Bytes that are read at a time."""
LOOKED_MAX: Final = 20_000
"""Events that one page looks at; it may then have fewer than asked for."""


class BadPlaceError(ValueError):
    """A text that is no place in the audit log."""


class _Found(NamedTuple):
    """An event and where its line begins."""

    event: dict[str, Any]
    kind: str
    number: int
    position: int


@dataclass(slots=True)
class AuditPage:
    """Some events, the newest first.

    Attributes:
        events: The events.
        next: Where the next page begins; empty: there is no more.
    """

    events: list[dict[str, Any]] = field(default_factory=list)
    next: str = ""


def read_page(
    storage_path: Path,
    before: str,
    limit: int,
    names: Sequence[str] = (),
    user: str = "",
    vhost: str = "",
) -> AuditPage:
    """Return events from a place on backwards. Reads files; blocks.

    Args:
        storage_path: Data directory.
        before: `next` of the page before; empty begins with the newest event.
        limit: Most events.
        names: Names of events, or patterns of them; empty for all.
        user: Only what this user did; empty for all.
        vhost: Only in this virtual host; empty for all.

    Raises:
        BadPlaceError: `before` is no place.
        OSError: A file cannot be read; one that is missing is no error.
    """
    directory = storage_path / DIRECTORY_NAME
    # What comes between two pages is on neither.
    places = _places_from(before) if before else _ends(directory)
    each = [_events(directory, kind, places.get(kind)) for kind in KINDS]
    page = AuditPage()
    for looked, found in enumerate(heapq.merge(*each, key=_time, reverse=True), 1):
        if len(page.events) == limit or looked > LOOKED_MAX:
            page.next = _text_of(places)
            break
        places[found.kind] = (found.number, found.position)
        event = found.event
        if (
            (not names or any(fnmatchcase(event["event"], each) for each in names))
            and user in ("", event["user"])
            and vhost in ("", event.get("vhost", ""))
        ):
            page.events.append(event)
    return page


def _ends(directory: Path) -> dict[str, tuple[int, int]]:
    """Return the end of the newest file of each kind."""
    found: dict[str, tuple[int, int]] = {}
    for kind in KINDS:
        try:
            number = file_numbers(directory, kind)[-1]
            found[kind] = (number, (directory / file_name(kind, number)).stat().st_size)
        except (FileNotFoundError, IndexError):
            continue
    return found


def _events(directory: Path, kind: str, before: tuple[int, int] | None) -> Iterator[_Found]:
    """Iterate over the events of one kind, the newest first."""
    try:
        numbers = file_numbers(directory, kind)
    except FileNotFoundError:
        return
    for number in reversed(numbers):
        if before is not None and number > before[0]:
            continue
        end = before[1] if before is not None and number == before[0] else None
        try:
            for position, line in _lines(directory / file_name(kind, number), end):
                event = _decoded(line)
                if event is not None:
                    yield _Found(event, kind, number, position)
        except FileNotFoundError:
            # It was the oldest, and is gone.
            continue


def _lines(path: Path, end: int | None) -> Iterator[tuple[int, bytes]]:
    """Iterate backwards over the whole lines of a file, each with its position."""
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        at = at if end is None else min(at, end)
        rest = b""
        is_whole = False
        while at > 0:
            begin = max(at - READ_BYTES, 0)
            file.seek(begin)
            octets = file.read(at - begin) + rest
            first, *lines = octets.split(b"\n")
            if begin == 0:
                lines.insert(0, first)
                first = b""
            position = begin + len(octets)
            for line in reversed(lines):
                position -= len(line)
                # What follows the last line feed is being written, or cut.
                if is_whole and line:
                    yield position, line
                is_whole = True
                position -= 1
            rest, at = first, begin


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and {"time", "event", "user"} <= event.keys() else None


def _time(found: _Found) -> str:
    return str(found.event["time"])


def _text_of(places: dict[str, tuple[int, int]]) -> str:
    parts = (f"{kind}-{number}-{position}" for kind, (number, position) in places.items())
    return ".".join(sorted(parts))


def _places_from(text: str) -> dict[str, tuple[int, int]]:
    places: dict[str, tuple[int, int]] = {}
    for part in text.split("."):
        try:
            kind, number, position = part.split("-")
            places[kind] = (int(number), int(position))
        except ValueError:
            raise BadPlaceError(part) from None
        if kind not in KINDS or min(places[kind]) < 0:
            raise BadPlaceError(part)
    return places
