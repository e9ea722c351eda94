"""A message about another one: who published it where, or who got it from which queue.

Its body is that of the other message, and its headers say everything else.

Source: RabbitMQ 3.10, `rabbit_trace`: names, kinds and order of the headers.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final, NamedTuple

from amqp_server.broker.events.event_headers import node_name
from amqp_server.broker.routing.carbon_copies import long_strings
from amqp_server.broker.transfers.deaths import X_DEATH
from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.property_octets import HEADERS, find_property, replace_property
from amqp_server.protocol.readable_headers import readable_properties
from amqp_server.protocol.tables import has_more_values
from appendlog.layout.message import HAS_HEADERS, decode_message, encode_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from amqp_server.protocol.field_values import Table
    from appendlog.layout.message import MessageView

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
"""Exchange of the firehose, in every virtual host."""
HEADER_BYTES_MAX: Final = 96 * 1024
"""Longest properties of a trace: a client gets them in one frame. A longer one is shortened."""
HEADER_VALUES_MAX: Final = 2048
"""Most values in the headers of a message that its trace repeats: they are decoded in one step."""
QUEUES_MAX: Final = 256
"""Queues that a shortened trace names, of those that the message went to."""
_NAME: Final = TRACE_EXCHANGE.encode()
_KEY_BYTES_MAX: Final = 255
_INT32_END: Final = 1 << 31
_NO_TABLE: Final = bytes(4)


class Origin(NamedTuple):
    """The client that published a message, or got it.

    Attributes:
        vhost: Name of the virtual host.
        connection: Name of the connection.
        channel: Number of the channel.
        user: Name of the user.
    """

    vhost: str
    connection: str
    channel: int
    user: str


class Publish(NamedTuple):
    """A publish of a message, for its trace.

    Attributes:
        origin: Who published it.
        queues: Names of the queues that it goes to.
    """

    origin: Origin
    queues: Sequence[str]


class Delivery(NamedTuple):
    """A delivery of a message, for its trace.

    Attributes:
        origin: Who got it.
        queue: Name of the queue.
        redelivered: Whether it may have been delivered before.
    """

    origin: Origin
    queue: str
    redelivered: bool


def trace_of(front: bytes, happened: Publish | Delivery) -> bytes | None:
    """Return the trace of a message, without the body.

    Args:
        front: The message, as it was stored or delivered, without its body.
        happened: What happened to it.

    Returns:
        A message to `TRACE_EXCHANGE`; None for a message that is a trace itself, and for the dead
        letter of one: it would be traced again and again.
    """
    message = decode_message(front)
    if message.exchange == _NAME:
        return None
    octets = message.properties
    has_headers = message.flags & HAS_HEADERS
    if has_headers and has_more_values(
        octets, find_property(octets, HEADERS)[0], HEADER_VALUES_MAX
    ):
        octets = replace_property(octets, HEADERS, _NO_TABLE)
    properties = readable_properties(octets)
    if _is_dead_trace(properties.headers or {}):
        return None
    try:
        headers = Properties(headers=_headers(message, properties, happened)).encode()
    except FieldSyntaxError:
        # They nest too deep to be put into another table.
        headers = b""
    if not headers or len(headers) > HEADER_BYTES_MAX:
        headers = Properties(headers=_short_headers(message, happened)).encode()
    return encode_message(HAS_HEADERS, _NAME, _routing_key(message, happened), headers, b"")


def _routing_key(message: MessageView, happened: Publish | Delivery) -> bytes:
    if isinstance(happened, Publish):
        key = b"publish." + message.exchange
    else:
        key = b"deliver." + _octets(happened.queue)
    return key[:_KEY_BYTES_MAX]


def _headers(message: MessageView, properties: Properties, happened: Publish | Delivery) -> Table:
    """Return the headers of a trace, in RabbitMQ's order."""
    copies = (properties.headers or {}).get("CC")
    more = copies.value if copies is not None and isinstance(copies.value, list) else []
    keys = [message.routing_key, *long_strings(more)]
    table = {
        "exchange_name": FieldValue(b"S", message.exchange),
        "routing_keys": FieldValue(b"A", [FieldValue(b"S", key) for key in keys]),
        "properties": FieldValue(b"F", _table_of(properties)),
        "node": _text(node_name()),
    }
    if isinstance(happened, Delivery):
        table["redelivered"] = FieldValue(b"I", int(happened.redelivered))
    origin = happened.origin
    table["vhost"] = _text(origin.vhost)
    table["connection"] = _text(origin.connection)
    table["channel"] = FieldValue(b"I", origin.channel)
    table["user"] = _text(origin.user)
    if isinstance(happened, Publish):
        table["routed_queues"] = FieldValue(b"A", [_text(name) for name in happened.queues])
    return table


def _short_headers(message: MessageView, happened: Publish | Delivery) -> Table:
    """Return headers that are never too long: without the properties that the publisher gave."""
    if isinstance(happened, Publish):
        happened = happened._replace(queues=happened.queues[:QUEUES_MAX])
    return _headers(message, Properties(), happened)


def _table_of(properties: Properties) -> Table:
    """Return the properties that a message has, by RabbitMQ's names for them."""
    table: Table = {}
    for each in fields(properties):
        value = getattr(properties, each.name)
        if isinstance(value, dict):
            table[each.name] = FieldValue(b"F", value)
        elif isinstance(value, int):
            table[each.name] = FieldValue(b"I" if value < _INT32_END else b"l", value)
        elif value is not None:
            table[each.name] = _text(value)
    return table


def _is_dead_trace(headers: Table) -> bool:
    """Return whether a message was a trace before it became a dead letter."""
    deaths = headers.get(X_DEATH)
    if deaths is None or not isinstance(deaths.value, list):
        return False
    for death in deaths.value:
        exchange = death.value.get("exchange") if isinstance(death.value, dict) else None
        if exchange is not None and exchange.value == _NAME:
            return True
    return False


def _text(text: str) -> FieldValue:
    return FieldValue(b"S", _octets(text))


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
