"""Selects messages by their headers, with filters written as `header=value`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_server.protocol.readable_headers import readable_properties
from appendlog.layout.message import HAS_HEADERS, body_position, properties_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.protocol.field_values import FieldValue


class HeaderFilter(NamedTuple):
    """A header and the value that it must have.

    Attributes:
        name: Name of the header.
        value: Its value as text: strings unchanged, numbers in decimal, `true` and `false`.
    """

    name: str
    value: str


def parse_filter(text: str) -> HeaderFilter:
    """Parse `header=value`; the value may be empty and may contain equals signs.

    Raises:
        ValueError: The text is not a filter; the message says how to write one.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r} is not a filter: write HEADER=VALUE")
    return HeaderFilter(name, value)


def matches(message: bytes, filters: Sequence[HeaderFilter]) -> bool:
    """Return whether a message matches all filters; without filters every message does.

    A header that cannot be decoded matches nothing.
    """
    if not filters:
        return True
    if not message[0] & HAS_HEADERS:
        return False
    octets = message[properties_position(message) : body_position(message)]
    headers = readable_properties(octets).headers or {}
    return all(each.name in headers and _has(headers[each.name], each.value) for each in filters)


def _has(field: FieldValue, text: str) -> bool:
    value = field.value
    if isinstance(value, bytes):
        return value == text.encode("utf-8", "surrogateescape")
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    return isinstance(value, int | float) and str(value) == text
