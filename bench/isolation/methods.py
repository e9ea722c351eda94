"""The methods of attacks and probes, encoded before they are sent.

All methods use channel 1. Answers are given as class and method number.

Source: AMQP 0-9-1, sections 1.4 to 1.8 (methods), 4.2.5 (tables), 4.2.6 (content).
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from bench import requests
from bench.amqp_frames import (
    BASIC,
    BODY,
    HEADER,
    PERSISTENT,
    frame,
    long_string,
    method_frame,
    short_string,
)

CHANNEL: Final = 1
CHANNEL_OPENED: Final = (20, 11)
CHANNEL_CLOSED: Final = (20, 41)
EXCHANGE_DECLARED: Final = (40, 11)
EXCHANGE_DELETED: Final = (40, 21)
EXCHANGE_BOUND: Final = (40, 31)
QUEUE_DECLARED: Final = (50, 11)
QUEUE_BOUND: Final = (50, 21)
QUEUE_PURGED: Final = (50, 31)
QUEUE_DELETED: Final = (50, 41)
QOS_SET: Final = (60, 11)
CONSUMED: Final = (60, 21)
CANCELLED: Final = (60, 31)

BODY_FRAME_BYTES_MAX: Final = 131_064
"""Payload of the largest frame that both brokers accept by default."""

_HEADERS: Final = 1 << 13
_DELIVERY_MODE: Final = 1 << 12
_PRIORITY: Final = 1 << 11
_EXPIRATION: Final = 1 << 8
_SMALL_BODY: Final = b"isolation".ljust(16, b".")

Value = str | int | Sequence[str]
"""A value of a table: a text, a 32-bit integer or a list of texts."""


def table(fields: Mapping[str, Value] | None = None) -> bytes:
    """Encode a field table."""
    entries = (short_string(name) + _value(value) for name, value in (fields or {}).items())
    return long_string(b"".join(entries))


def _value(value: Value) -> bytes:
    if isinstance(value, str):
        return b"S" + long_string(value.encode())
    if isinstance(value, int):
        return b"I" + struct.pack(">i", value)
    return b"A" + long_string(b"".join(_value(each) for each in value))


def declare_exchange(name: str, kind: str, *, is_durable: bool = False) -> bytes:
    """Declare an exchange; the answer is EXCHANGE_DECLARED."""
    return requests.declare_exchange(CHANNEL, name, kind, durable=is_durable).octets


def delete_exchange(name: str) -> bytes:
    """Delete an exchange; the answer is EXCHANGE_DELETED."""
    return requests.delete_exchange(CHANNEL, name).octets


def bind_exchange(source: str, destination: str, key: str = "") -> bytes:
    """Bind the exchange `destination` to `source`; the answer is EXCHANGE_BOUND."""
    names = short_string(destination) + short_string(source) + short_string(key)
    return method_frame(CHANNEL, 40, 30, b"\0\0" + names + b"\0" + table())


def declare_queue(
    name: str,
    arguments: Mapping[str, Value] | None = None,
    *,
    is_durable: bool = False,
    is_exclusive: bool = False,
    is_passive: bool = False,
) -> bytes:
    """Declare a queue; the answer is QUEUE_DECLARED."""
    return requests.declare_queue(
        CHANNEL,
        name,
        durable=is_durable,
        exclusive=is_exclusive,
        passive=is_passive,
        arguments=table(arguments),
    ).octets


def bind_queue(
    exchange: str, queue: str, key: str = "", arguments: Mapping[str, Value] | None = None
) -> bytes:
    """Bind a queue to an exchange; the answer is QUEUE_BOUND."""
    return requests.bind_queue(CHANNEL, queue, exchange, key, table(arguments)).octets


def purge_queue(name: str) -> bytes:
    """Purge a queue; the answer is QUEUE_PURGED."""
    return method_frame(CHANNEL, 50, 30, b"\0\0" + short_string(name) + b"\0")


def delete_queue(name: str) -> bytes:
    """Delete a queue; the answer is QUEUE_DELETED."""
    return requests.delete_queue(CHANNEL, name).octets


def set_qos(prefetch: int) -> bytes:
    """Set the prefetch of later consumers, 0 for no limit; the answer is QOS_SET."""
    return method_frame(CHANNEL, BASIC, 10, struct.pack(">IHB", 0, prefetch, 0))


def consume(
    queue: str, tag: str, arguments: Mapping[str, Value] | None = None, *, no_ack: bool = False
) -> bytes:
    """Start a consumer; the answer is CONSUMED."""
    names = short_string(queue) + short_string(tag)
    flags = bytes((no_ack << 1,))
    return method_frame(CHANNEL, BASIC, 20, b"\0\0" + names + flags + table(arguments))


def cancel(tag: str) -> bytes:
    """Cancel a consumer, whose deliveries stay unsettled; the answer is CANCELLED."""
    return method_frame(CHANNEL, BASIC, 30, short_string(tag) + b"\0")


def select_confirms() -> bytes:
    """Ask for confirms; the answer is (85, 11)."""
    return method_frame(CHANNEL, 85, 10, b"\0")


def ack(tag: int, *, is_multiple: bool = False) -> bytes:
    """Acknowledge a delivery, or all deliveries up to it; there is no answer."""
    return method_frame(CHANNEL, BASIC, 80, struct.pack(">QB", tag, is_multiple))


def requeue(tag: int, *, is_multiple: bool = False) -> bytes:
    """Nack and requeue a delivery, or all deliveries up to it; there is no answer."""
    return method_frame(CHANNEL, BASIC, 120, struct.pack(">QB", tag, is_multiple | 1 << 1))


def publish(
    exchange: str,
    key: str,
    body: bytes = _SMALL_BODY,
    *,
    headers: Mapping[str, Value] | None = None,
    is_persistent: bool = False,
    priority: int | None = None,
    expiration: str | None = None,
) -> bytes:
    """Encode a message: publish, content header and body frames.

    Args:
        exchange: Name of the exchange; "" is the default exchange.
        key: Routing key; in the default exchange, the queue's name.
        body: Body of any size.
        headers: Headers; None for no such property.
        is_persistent: Whether delivery_mode is 2; if not, there is no such property.
        priority: Priority, 0 to 255; None for no such property.
        expiration: Milliseconds until the message expires, in digits; None for no such property.
    """
    flags, properties = 0, b""
    if headers is not None:
        flags, properties = flags | _HEADERS, properties + table(headers)
    if is_persistent:
        flags, properties = flags | _DELIVERY_MODE, properties + bytes((PERSISTENT,))
    if priority is not None:
        flags, properties = flags | _PRIORITY, properties + bytes((priority,))
    if expiration is not None:
        flags, properties = flags | _EXPIRATION, properties + short_string(expiration)
    arguments = b"\0\0" + short_string(exchange) + short_string(key) + b"\0"
    header = struct.pack(">HHQH", BASIC, 0, len(body), flags) + properties
    parts = [method_frame(CHANNEL, BASIC, 40, arguments), frame(HEADER, CHANNEL, header)]
    parts += [
        frame(BODY, CHANNEL, body[at : at + BODY_FRAME_BYTES_MAX])
        for at in range(0, len(body), BODY_FRAME_BYTES_MAX)
    ]
    return b"".join(parts)
