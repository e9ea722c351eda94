"""A delivery of the source as a message of this server's log: the same octets in another frame.

Exchange, routing key, properties and body stay as they were published. Two headers go that the
source has added: the place in a stream, and how often a quorum queue has delivered the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.framing import delivery_mode_position, property_list_end
from amqp_server.protocol.property_octets import HEADERS, find_property
from amqp_server.protocol.tables import decode_table, table_without
from appendlog.layout.message import HAS_EXPIRATION, HAS_HEADERS, HAS_PRIORITY, PERSISTENT

if TYPE_CHECKING:
    from amqp_server.protocol.tables import Table
    from amqp_server.shovel.link.deliveries import Delivery

STREAM_OFFSET: Final = "x-stream-offset"
DELIVERY_COUNT: Final = "x-delivery-count"
_PROPERTIES_AT: Final = 12
"""Where the properties begin in a content header: after class, weight and size of the body."""
_DELIVERY_MODE: Final = 1 << 12
_PRIORITY: Final = 1 << 11
_EXPIRATION: Final = 1 << 8
_PERSISTENT_MODE: Final = 2
_CONTINUED: Final = 3
"""Bits of flags that no message may have: more flags follow, or a property is unknown."""
_EMPTY_TABLE: Final = bytes(4)
_FLAGS: Final = ((HEADERS, HAS_HEADERS), (_EXPIRATION, HAS_EXPIRATION), (_PRIORITY, HAS_PRIORITY))


def message_of(delivery: Delivery, without: str = "") -> bytes:
    """Return a delivery as a message (docs/log-format.md, section 5).

    Args:
        delivery: As it came.
        without: Header that the source has added; empty for none.

    Raises:
        AmqpError: The headers are malformed.
    """
    properties = _properties(delivery)
    if without and properties[0] << 8 & HEADERS:
        properties = _without_header(properties, without)
    present = properties[0] << 8 | properties[1]
    flags = 0
    for bit, flag in _FLAGS:
        if present & bit:
            flags |= flag
    if present & _DELIVERY_MODE:
        at = delivery_mode_position(properties, 2, present)
        flags |= PERSISTENT if properties[at] == _PERSISTENT_MODE else 0
    length = len(properties).to_bytes(4, "little")
    return b"".join((bytes((flags,)), delivery.route, length, properties, delivery.body))


def stream_offset(delivery: Delivery) -> int | None:
    """Return the place of a delivery in its stream; None if the source does not say.

    Raises:
        AmqpError: The headers are malformed.
    """
    offset = _headers(_properties(delivery)).get(STREAM_OFFSET)
    if offset is None or type(offset.value) is not int or offset.value < 0:
        return None
    return offset.value


def _properties(delivery: Delivery) -> bytes:
    """Return flags and property list of a delivery, which fit together."""
    properties = delivery.header[_PROPERTIES_AT:]
    present = properties[0] << 8 | properties[1] if len(properties) > 1 else _CONTINUED
    if present & _CONTINUED or (
        property_list_end(properties, 2, len(properties), present) != len(properties)
    ):
        raise FieldSyntaxError("the properties of a message do not add up")
    return properties


def _headers(properties: bytes) -> Table:
    if not properties[0] << 8 & HEADERS:
        return {}
    start, _ = find_property(properties, HEADERS)
    return decode_table(properties, start)[0]


def _without_header(properties: bytes, name: str) -> bytes:
    """Return properties without a header; without headers, if it was the only one."""
    start, end = find_property(properties, HEADERS)
    left = table_without(properties[start:end], name)
    if len(left) > len(_EMPTY_TABLE):
        return properties[:start] + left + properties[end:]
    present = (properties[0] << 8 | properties[1]) & ~HEADERS
    return present.to_bytes(2, "big") + properties[2:start] + properties[end:]
