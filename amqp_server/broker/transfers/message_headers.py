"""Rewriting a message's headers: everything else stays octet for octet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.properties import Properties, decode_properties
from amqp_server.protocol.property_octets import HEADERS, replace_property
from appendlog.message import HAS_HEADERS, decode_message, encode_message

if TYPE_CHECKING:
    from amqp_server.protocol.field_values import FieldValue

_NO_HEADERS = bytes(4)


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
    """Return a message that has one more header, or another value of it."""
    view = decode_message(message)
    properties = readable_properties(view.properties)
    headers = {**(properties.headers or {}), name: value}
    return encode_message(
        view.flags | HAS_HEADERS,
        view.exchange,
        view.routing_key,
        replace(properties, headers=headers).encode(),
        view.body,
    )
