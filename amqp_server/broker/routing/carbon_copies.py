"""CC and BCC: headers with more routing keys for the same message.

Both are arrays of long strings. `BCC` is taken out before any client gets the message; all else of
it stays octet for octet.

Source: RabbitMQ, sender-selected distribution; `rabbit_basic:header_routes` and its error text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.protocol.errors import PreconditionFailed
from amqp_server.protocol.field_comparison import type_name
from amqp_server.protocol.methods import BasicPublish
from amqp_server.protocol.property_octets import HEADERS, find_property, replace_property
from amqp_server.protocol.readable_headers import join_headers, split_headers
from amqp_server.protocol.tables import Table, decode_table, table_without
from appendlog.layout.message import body_position, properties_position, with_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.protocol.field_values import FieldValue

_SHORT_MESSAGE_BYTES = 512
"""Up to here it is quicker to look through a body too than to find where it begins."""


def may_have_copies(message: bytes) -> bool:
    """Return whether it is worth to decode the headers: `CC` or `BCC` may be among them."""
    end = len(message)
    if end > _SHORT_MESSAGE_BYTES:
        end = body_position(message)
    return message.find(b"\x02CC", 0, end) >= 0 or message.find(b"\x03BCC", 0, end) >= 0


def take_copies(message: bytes, copies_max: int | None = None) -> tuple[tuple[str, ...], bytes]:
    """Return the additional routing keys of a message with headers, and it without `BCC`.

    Args:
        message: The message.
        copies_max: Keys that the two headers may have together; None: any number.

    Raises:
        PreconditionFailed: One of the two headers is no array, or they have too many keys.
    """
    properties = message[properties_position(message) : body_position(message)]
    start, end = find_property(properties, HEADERS)
    table, others = split_headers(properties[start:end])
    headers, _ = decode_table(table)
    keys = _keys(headers, "CC") + _keys(headers, "BCC")
    if copies_max is not None and len(keys) > copies_max:
        raise PreconditionFailed(
            f"invalid message: CC and BCC have {len(keys)} keys, {copies_max} are allowed",
            *BasicPublish.ids,
        )
    if "BCC" in headers:
        table = join_headers(table_without(table, "BCC"), others)
        message = with_properties(message, replace_property(properties, HEADERS, table))
    return keys, message


def _keys(headers: Table, name: str) -> tuple[str, ...]:
    value = headers.get(name)
    if value is None:
        return ()
    if not isinstance(value.value, list):
        raise PreconditionFailed(
            f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(value)}}}',
            *BasicPublish.ids,
        )
    return tuple(key.decode("utf-8", "surrogateescape") for key in long_strings(value.value))


def long_strings(items: Sequence[FieldValue]) -> list[bytes]:
    """Return the keys in `CC` or `BCC`; what is no long string is passed over, as in RabbitMQ."""
    return [item.value for item in items if item.kind == b"S" and isinstance(item.value, bytes)]
