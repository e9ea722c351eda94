"""The property list of a content header, as the values of columns.

Works on what `appendlog.layout.message` calls properties: flags and list exactly as on the wire.
Pure Python, no Arrow: one call per *different* property list of a batch.

Source: AMQP 0-9-1 specification, section 4.2.6.1, and class basic for the fields.
"""

from functools import lru_cache
from typing import Final, NamedTuple

PROPERTY_COLUMNS: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "message_timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""Columns in the order of the wire, which is that of the flag bits from 15 down."""

PropertyValue = str | int | None

TIMESTAMP_SECONDS_MAX: Final = (2**63 - 1) // 1_000_000
"""A later `message_timestamp` (year 294247) does not fit Spark's TIMESTAMP: null."""

_ABSENT: Final[tuple[PropertyValue, ...]] = (None,) * len(PROPERTY_COLUMNS)
_HEADERS: Final = PROPERTY_COLUMNS.index("headers")
_TIMESTAMP: Final = PROPERTY_COLUMNS.index("message_timestamp")
_OCTETS: Final = frozenset(
    {PROPERTY_COLUMNS.index("delivery_mode"), PROPERTY_COLUMNS.index("priority")}
)
_UNKNOWN: Final = 1 << 1
_CONTINUATION: Final = 1 << 0


class MessageProperties(NamedTuple):
    """The properties of one message.

    Attributes:
        values: In the order of `PROPERTY_COLUMNS`; None where absent, and for the headers.
        table: The headers as they are, without their length, not looked at; None when absent.
        is_readable: False when all is None because the bytes of the list do not add up.
    """

    values: tuple[PropertyValue, ...]
    table: bytes | None
    is_readable: bool


def decode_properties(properties: bytes) -> MessageProperties:
    """Decode a property list; never fails, because no message is left out for its properties.

    Short strings that are not UTF-8 have U+FFFD in place of the bad bytes. In a list that
    does not add up every property is None.

    Args:
        properties: Flags and list; not kept.
    """
    try:
        values, table, position = _parse(properties)
        if position != len(properties):
            return _UNREADABLE
    except (IndexError, ValueError):
        return _UNREADABLE
    return MessageProperties(tuple(values), table, True)


def _parse(data: bytes) -> tuple[list[PropertyValue], bytes | None, int]:
    """Return the values, the headers table, and where the list ends."""
    values: list[PropertyValue] = list(_ABSENT)
    table = None
    if not data:
        return values, table, 0
    present, position = present_properties(data)
    for at in present:
        if at in _OCTETS:
            values[at] = data[position]
            position += 1
        elif at == _HEADERS:
            start = position + 4
            position = start + int.from_bytes(data[position:start], "big")
            table = data[start:position]
        elif at == _TIMESTAMP:
            seconds = int.from_bytes(data[position : position + 8], "big")
            values[at] = seconds * 1_000_000 if seconds <= TIMESTAMP_SECONDS_MAX else None
            position += 8
        else:
            start = position + 1
            position = start + data[position]
            values[at] = data[start:position].decode("utf-8", "replace")
    return values, table, position


def present_properties(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return which properties follow, and where they begin.

    Raises:
        IndexError: The flags go on behind the end.
        ValueError: A property follows that nobody knows.
    """
    word = data[0] << 8 | data[1]
    present = _columns(word)
    position = 2
    unknown = word & _UNKNOWN
    while word & _CONTINUATION:
        word = data[position] << 8 | data[position + 1]
        position += 2
        unknown |= word & ~_CONTINUATION
    # Where the value of an unknown property ends nobody can tell.
    if unknown:
        raise ValueError("unknown property")
    return present, position


@lru_cache(maxsize=1024)
def _columns(flags: int) -> tuple[int, ...]:
    return tuple(at for at in range(len(PROPERTY_COLUMNS)) if flags & 1 << 15 - at)


_UNREADABLE: Final = MessageProperties(_ABSENT, None, False)
