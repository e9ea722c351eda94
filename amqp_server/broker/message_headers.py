"""Rewriting a message's headers: everything else stays octet for octet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amqp_server.protocol.properties import decode_properties
from appendlog.message import HAS_HEADERS, decode_message, encode_message

if TYPE_CHECKING:
    from amqp_server.protocol.field_values import FieldValue


def with_header(message: bytes, name: str, value: FieldValue) -> bytes:
    """Return a message that has one more header, or another value of it."""
    view = decode_message(message)
    properties = decode_properties(view.properties)
    headers = {**(properties.headers or {}), name: value}
    return encode_message(
        view.flags | HAS_HEADERS,
        view.exchange,
        view.routing_key,
        replace(properties, headers=headers).encode(),
        view.body,
    )
