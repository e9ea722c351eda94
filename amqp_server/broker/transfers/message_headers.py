"""Rewrites a message's headers and keeps all its other octets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.transfers.large_body import without_large_body
from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.large_delivery import LargeMessage
from amqp_server.protocol.properties import Properties, decode_properties
from amqp_server.protocol.property_octets import (
    HEADERS,
    find_property,
    replace_property,
    with_property,
)
from amqp_server.protocol.strings import encode_longstr
from amqp_server.protocol.tables import encode_table, table_without
from appendlog.layout.message import (
    HAS_HEADERS,
    body_position,
    properties_position,
    with_properties,
)

if TYPE_CHECKING:
    from amqp_server.protocol.field_values import FieldValue, Table

_LENGTH_BYTES = 4
_NO_HEADERS = bytes(_LENGTH_BYTES)


def readable_properties(octets: bytes) -> Properties:
    """Return a message's properties, without its headers if these are malformed.

    A publish is accepted without a look into its headers. So a malformed table is found only
    when something has to be added to it. That is no reason to lose the message.

    Args:
        octets: Properties as on the wire, and as the scanner accepts them.
    """
    try:
        return decode_properties(octets)
    except FieldSyntaxError:
        return decode_properties(replace_property(octets, HEADERS, _NO_HEADERS))


def with_header(message: bytes, name: str, value: FieldValue) -> bytes:
    """Return a message with one header added or replaced; see `with_headers`."""
    return with_headers(message, {name: value})


def as_run_with_header(message: bytes, name: str, value: FieldValue) -> list[bytes] | LargeMessage:
    """Return a run of one message with a header added or replaced; a large body is not copied."""
    front, body = without_large_body(message)
    front = with_header(front, name, value)
    return [front] if body is None else LargeMessage(front, body)


def with_headers(message: bytes, headers: Table) -> bytes:
    """Return a message with headers added or replaced; all other octets stay.

    Malformed headers are removed, as in `readable_properties`.
    """
    properties = message[properties_position(message) : body_position(message)]
    others = _NO_HEADERS
    if message[0] & HAS_HEADERS:
        start, end = find_property(properties, HEADERS)
        others = properties[start:end]
        try:
            for name in headers:
                others = table_without(others, name)
        except FieldSyntaxError:
            others = _NO_HEADERS
    entries = others[_LENGTH_BYTES:] + encode_table(headers)[_LENGTH_BYTES:]
    properties = with_property(properties, HEADERS, encode_longstr(entries))
    return with_properties(message, properties, message[0] | HAS_HEADERS)
