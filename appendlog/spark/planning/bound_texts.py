"""Parses the bounds of ranges that users write; see `bounds`."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from appendlog.spark.errors import BoundError
from appendlog.spark.planning.bounds import EARLIEST, LATEST, Bound, Bounds
from appendlog.spark.schema.columns import PARTITION

OFFSET_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED: Final = {"earliest": EARLIEST, "latest": LATEST, "-2": EARLIEST, "-1": LATEST}
_NUMBER: Final = re.compile(r"[+-]?[0-9]+\Z")
_DIGITS_MAX: Final = 20
_NS_PER_MS: Final = 1_000_000


def parse_offsets(text: str) -> Bounds:
    """Parse `earliest`, `latest`, -2, -1, an offset, or JSON with one of these for each queue.

    Raises:
        BoundError: The text is none of these.
    """
    if text.lstrip().startswith("{"):
        return _by_queue(text, _offset)
    return Bounds(_offset(text))


def parse_times(text: str) -> Bounds:
    """Parse a time (see `parse_time`), or JSON with a time for each queue.

    Raises:
        BoundError: The text is neither.
    """
    if text.lstrip().startswith("{"):
        return _by_queue(text, parse_time)
    return Bounds(parse_time(text))


def parse_time(text: str) -> Bound:
    """Parse milliseconds since 1970 in UTC, or a date or time in ISO 8601.

    A time without a zone is in UTC. A date means its midnight.

    Raises:
        BoundError: The text is neither, or is out of range.
    """
    text = text.strip()
    if not _NUMBER.match(text):
        return _iso_time(text)
    milliseconds = int(text) if len(text) <= _DIGITS_MAX else OFFSET_MAX
    if not 0 <= milliseconds <= OFFSET_MAX // _NS_PER_MS:
        raise BoundError(f"{text!r} is no time: milliseconds since 1970 are 0 or more")
    return Bound.at_time(milliseconds * _NS_PER_MS)


def parse_offset_or_time(text: str) -> Bound:
    """Parse `earliest`, `latest`, an offset, or a date or time in ISO 8601.

    A number is always an offset, never a time.

    Raises:
        BoundError: The text is none of these.
    """
    text = text.strip()
    if text.lower() in _NAMED or _NUMBER.match(text):
        return _offset(text)
    try:
        return _iso_time(text)
    except BoundError as error:
        raise BoundError(
            f"{text!r} is neither an offset nor a time: write earliest, latest, 1200, "
            "2026-01-31 or 2026-01-31T18:00:00+01:00"
        ) from error


def _offset(text: str) -> Bound:
    text = text.strip()
    named = _NAMED.get(text.lower())
    if named is not None:
        return named
    if not _NUMBER.match(text):
        raise BoundError(
            f"{text!r} is no offset: write earliest, latest, 1200 or "
            f'{{"orders": {{"{PARTITION}": 1200}}}}'
        )
    offset = int(text) if len(text) <= _DIGITS_MAX else OFFSET_MAX + 1
    if not 0 <= offset <= OFFSET_MAX:
        raise BoundError(
            f"{text!r} is no offset: 0 to {OFFSET_MAX}, -1 for latest, -2 for earliest"
        )
    return Bound.at_offset(offset)


def _iso_time(text: str) -> Bound:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BoundError(
            f"{text!r} is no time: write milliseconds since 1970, 2026-01-31 or "
            "2026-01-31T18:00:00+01:00"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Bound.at_time((moment - _EPOCH) // timedelta(microseconds=1) * 1000)


def _by_queue(text: str, parse: Callable[[str], Bound]) -> Bounds:
    advice = f'write {{"orders": {{"{PARTITION}": 1200}}}}'
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BoundError(f"{text!r:.300} is no JSON ({error}): {advice}") from error
    bounds: dict[str, Bound] = {}
    for queue, partitions in found.items():
        if not isinstance(partitions, dict) or _partitions(partitions) != [str(PARTITION)]:
            raise BoundError(
                f"queue {queue!r} has one partition, {PARTITION}, found "
                f"{json.dumps(partitions)}: {advice}"
            )
        value = partitions[str(PARTITION)]
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise BoundError(f"{json.dumps(value)} of queue {queue!r}: {advice}")
        bounds[queue] = parse(str(value))
    return Bounds(None, bounds)


def _partitions(fields: dict[str, Any]) -> list[str]:
    """Return the keys that are partitions; the other keys of a stream's checkpoint are words."""
    return [key for key in fields if _NUMBER.match(key)]
