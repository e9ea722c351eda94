"""Choosing messages by their headers: `header=value`, as a command line or a program says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from amqp_server.broker.transfers.message_headers import readable_properties
from appendlog.layout.message import HAS_HEADERS, body_position, properties_position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.protocol.field_values import FieldValue


class HeaderFilter(NamedTuple):
    """A header that a message must have, and its value.

    Attributes:
        name: Of the header.
        value: Its value as text: strings as they are, numbers in decimal, `true` and `false`.
    """

    name: str
    value: str


def parse_filter(text: str) -> HeaderFilter:
    """Read `header=value`; the value may be empty and may have more equals signs in it.

    Raises:
        ValueError: It is none; the text says how one is written.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r} is not a filter: write HEADER=VALUE")
    return HeaderFilter(name, value)


def matches(message: bytes, filters: Sequence[HeaderFilter]) -> bool:
    """Tell whether a message has all of these headers; without filters every one has.

    Headers that do not hold together match nothing.
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
