"""Rewrites a message's headers and keeps all its other octets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.transfers.large_body import without_large_body
from amqp_server.protocol.large_delivery import LargeMessage
from amqp_server.protocol.property_octets import HEADERS, find_property, with_property
from amqp_server.protocol.readable_headers import split_headers
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

    What cannot be decoded of its headers stays behind them (`readable_headers`).
    """
    properties = message[properties_position(message) : body_position(message)]
    others, unreadable = _NO_HEADERS, b""
    if message[0] & HAS_HEADERS:
        start, end = find_property(properties, HEADERS)
        others, unreadable = split_headers(properties[start:end])
        for name in headers:
            others = table_without(others, name)
    table = encode_longstr(
        b"".join((others[_LENGTH_BYTES:], encode_table(headers)[_LENGTH_BYTES:], unreadable))
    )
    properties = with_property(properties, HEADERS, table)
    return with_properties(message, properties, message[0] | HAS_HEADERS)
