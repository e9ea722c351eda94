"""Content headers of any octets, which pamqp neither writes nor reads unchanged."""

import struct
from typing import Final

from pamqp import constants
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient, frame_octets

BASIC_CLASS: Final = 60
HEADERS_FLAG: Final = 1 << 13
EXPIRATION_FLAG: Final = 1 << 8


def publish_raw(
    client: AmqpClient, routing_key: str, flags: int, properties: bytes, content: bytes = b""
) -> None:
    """Publish one message of at most one body frame through the default exchange on channel 1.

    Args:
        client: With channel 1 open.
        routing_key: Name of a queue.
        flags: Property flags: bit 15 for the first property, bit 14 for the second, and so on.
        properties: All that follows the flags.
        content: Body.
    """
    client.send(Basic.Publish(routing_key=routing_key))
    head = struct.pack(">HHQH", BASIC_CLASS, 0, len(content), flags) + properties
    client.send_raw(frame_octets(constants.FRAME_HEADER, 1, head))
    if content:
        client.send_raw(frame_octets(constants.FRAME_BODY, 1, content))


def expect_octets(client: AmqpClient, octets: bytes) -> None:
    """Return when these octets have come; what came with them is lost for other calls."""
    seen = b""
    while octets not in seen:
        seen += client.receive_raw()


def short_string(text: str) -> bytes:
    """Return a shortstr."""
    return bytes([len(text.encode())]) + text.encode()


def table(fields: bytes) -> bytes:
    """Return a field table of fields that are encoded already."""
    return struct.pack(">I", len(fields)) + fields
