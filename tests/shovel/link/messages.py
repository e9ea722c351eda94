"""Contents of messages as a link passes them on."""

import struct
from typing import Any

from amqp_server.protocol.properties import Properties, decode_properties


def header_of(
    body: bytes,
    **properties: Any,  # noqa: ANN401 - as the dataclass has them
) -> bytes:
    """Return the payload of the content header of a message."""
    return struct.pack(">HHQ", 60, 0, len(body)) + Properties(**properties).encode()


def properties_of(header: bytes) -> Properties:
    """Return the properties in the payload of a content header."""
    return decode_properties(header[12:])
