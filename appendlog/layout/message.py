"""The message: one `bytes` object, the same in memory and in a log record.

docs/log-format.md, section 5, describes it. It never contains AMQP frames, because a consumer has
another channel, and perhaps a smaller frame size, than the publisher.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

PERSISTENT: Final = 1
HAS_HEADERS: Final = 2
HAS_EXPIRATION: Final = 4
HAS_PRIORITY: Final = 8
DEATHS_SHIFT: Final = 4
"""The upper half of the flags octet: how many entries of `x-death` are since the publish."""
COUNTED_DEATHS_MAX: Final = 14
"""The largest such number: as many, or more."""
ALL_DEATHS: Final = 15
"""In its place if all entries are."""
_DEATHS: Final = ALL_DEATHS << DEATHS_SHIFT

MESSAGE_BYTES_MIN: Final = 7
"""Length of a message with an empty route, no property bytes and no body."""

_U32: Final = Struct("<I")


def encode_message(
    flags: int, exchange: bytes, routing_key: bytes, properties: bytes, body: bytes
) -> bytes:
    """Build one message from its parts.

    Args:
        flags: Sum of `PERSISTENT`, `HAS_HEADERS`, `HAS_EXPIRATION`, `HAS_PRIORITY`, which must
            agree with `properties`, and of the deaths, shifted by `DEATHS_SHIFT`.
        exchange: Exchange name as published, at most 255 bytes.
        routing_key: Routing key as published, at most 255 bytes.
        properties: Property flags and property list of the content header, in wire format.
        body: Any bytes; may be empty.

    Raises:
        ValueError: A name is longer than 255 bytes or `flags` is not an octet.
    """
    return b"".join(
        (
            bytes((flags, len(exchange))),
            exchange,
            bytes((len(routing_key),)),
            routing_key,
            _U32.pack(len(properties)),
            properties,
            body,
        )
    )


def as_persistent(message: bytes) -> bytes:
    """Return a message with the flag `PERSISTENT`; its properties stay unchanged."""
    return message if message[0] & PERSISTENT else bytes((message[0] | PERSISTENT,)) + message[1:]


def published_again(message: bytes) -> bytes:
    """Return a message as its copy is published: what has died until now is of an earlier life."""
    return bytes((message[0] & ~_DEATHS,)) + message[1:] if message[0] & _DEATHS else message


def routing_key_of(message: bytes) -> bytes:
    """Return the routing key that a message was published with."""
    at = 2 + message[1]
    return message[at + 1 : at + 1 + message[at]]


def properties_position(message: bytes) -> int:
    """Return where the properties begin, after their length field."""
    routing_key_at = 2 + message[1]
    return routing_key_at + 5 + message[routing_key_at]


def body_position(message: bytes) -> int:
    """Return where the body begins."""
    start = properties_position(message)
    return start + int.from_bytes(message[start - 4 : start], "little")


def with_properties(message: bytes, properties: bytes, flags: int | None = None) -> bytes:
    """Return a message with other properties. It copies the body once.

    Args:
        message: The message.
        properties: Its new properties, in wire format.
        flags: Its new flags, which agree with the properties; None keeps the old ones.
    """
    at = properties_position(message)
    body = memoryview(message)[body_position(message) :]
    front = message[: at - 4] if flags is None else bytes((flags,)) + message[1 : at - 4]
    return b"".join((front, _U32.pack(len(properties)), properties, body))


@dataclass(frozen=True, slots=True)
class MessageView:
    """Parts of one message; all are copies.

    Attributes:
        flags: See the constants of this module.
        exchange: Exchange name as published.
        routing_key: Routing key as published.
        properties: Property flags and list, in wire format.
        body: Body of the message.
    """

    flags: int
    exchange: bytes
    routing_key: bytes
    properties: bytes
    body: bytes

    @property
    def is_persistent(self) -> bool:
        """Return whether the publisher set delivery mode 2."""
        return bool(self.flags & PERSISTENT)


def decode_message(message: bytes) -> MessageView:
    """Cut a message into its parts.

    Raises:
        ValueError: The bytes end inside a part.
    """
    routing_key_at, properties_at, body_at = message_borders(message)
    return MessageView(
        message[0],
        message[2:routing_key_at],
        message[routing_key_at + 1 : properties_at - 4],
        message[properties_at:body_at],
        message[body_at:],
    )


def message_borders(message: bytes | memoryview) -> tuple[int, int, int]:
    """Return where the length of the routing key, the properties and the body of a message begin.

    Raises:
        ValueError: The bytes end inside a part.
    """
    size = len(message)
    if size < MESSAGE_BYTES_MIN:
        raise ValueError(f"message has {size} bytes, expected at least {MESSAGE_BYTES_MIN}")
    routing_key_at = 2 + message[1]
    if routing_key_at + 5 > size:
        raise ValueError(f"exchange name passes the end of a {size}-byte message")
    properties_at = routing_key_at + 5 + message[routing_key_at]
    if properties_at > size:
        raise ValueError(f"routing key passes the end of a {size}-byte message")
    body_at = properties_at + int.from_bytes(message[properties_at - 4 : properties_at], "little")
    if body_at > size:
        raise ValueError(f"properties end at {body_at} in a {size}-byte message")
    return routing_key_at, properties_at, body_at
