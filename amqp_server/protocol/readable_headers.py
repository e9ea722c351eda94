"""Splits headers into those that can be decoded, and octets that cannot.

A publish with such octets is refused. A log of an earlier version may hold them all the same, and
they must not be lost when a header is added, for example because the message becomes a dead
letter. So what is added goes between the two, and the octets stay unchanged behind it. Their
entries count as absent, also for filters and bindings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.framing import readable_end
from amqp_server.protocol.properties import decode_properties
from amqp_server.protocol.property_octets import HEADERS, find_property, replace_property
from amqp_server.protocol.strings import encode_longstr

if TYPE_CHECKING:
    from amqp_server.protocol.properties import Properties

_LENGTH_BYTES = 4


def split_headers(table: bytes) -> tuple[bytes, bytes]:
    """Return a table with the entries that can be decoded, and the octets of the others.

    Args:
        table: The whole table with its length, and nothing after it.

    Returns:
        The table itself and no octets, as a rule.
    """
    end = readable_end(table, _LENGTH_BYTES, len(table))
    if end == len(table):
        return table, b""
    return encode_longstr(table[_LENGTH_BYTES:end]), table[end:]


def join_headers(table: bytes, others: bytes) -> bytes:
    """Return a table, with its length, with octets behind its entries."""
    return encode_longstr(table[_LENGTH_BYTES:] + others) if others else table


def split_properties(properties: bytes) -> tuple[bytes, bytes]:
    """Return properties with those of their headers that can be decoded, and the others' octets.

    Args:
        properties: Properties as on the wire; their list fits, whatever is in the headers.

    Returns:
        The properties themselves and no octets, as a rule.
    """
    if not (properties[0] << 8 | properties[1]) & HEADERS:
        return properties, b""
    start, end = find_property(properties, HEADERS)
    readable, others = split_headers(properties[start:end])
    if others:
        properties = replace_property(properties, HEADERS, readable)
    return properties, others


def readable_properties(properties: bytes) -> Properties:
    """Return a message's properties, with those of its headers that can be decoded.

    Args:
        properties: As for `split_properties`.

    Raises:
        FieldSyntaxError: The list does not fit.
    """
    return decode_properties(split_properties(properties)[0])
