"""Rewriting a message's headers: everything else stays octet for octet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.errors import FieldSyntaxError
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
    """Return a message's properties; its headers are left out when they do not hold together.

    A publish is taken in without looking into its headers, so that a broken table is found only
    when something has to be added to it. That is no reason to lose the message.

    Args:
        octets: As on the wire, and as the scanner lets them pass.
    """
    try:
        return decode_properties(octets)
    except FieldSyntaxError:
        return decode_properties(replace_property(octets, HEADERS, _NO_HEADERS))


def with_header(message: bytes, name: str, value: FieldValue) -> bytes:
    """Return a message that has one more header, or another value of it; see `with_headers`."""
    return with_headers(message, {name: value})


def with_headers(message: bytes, headers: Table) -> bytes:
    """Return a message that has more headers, or other values of them; all other octets stay.

    Headers that do not hold together are left out, as in `readable_properties`.
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
    message = with_properties(message, properties)
    return bytes((message[0] | HAS_HEADERS,)) + message[1:]
