"""The file in which a client hands messages over: larger than a request on the control socket.

    "AQIM" | crc32c u32 of what follows | count u32 | (length u32, message) x count

Little-endian. It lives for one request, beside the server's files, and is never synced: when a
machine stops, the client sends its messages again.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from appendlog.layout.crc import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_BYTES: Final = 4 << 20
"""Messages in a file; one that is larger is alone in its own."""
BATCH_MESSAGES: Final = 8192
_HEAD: Final = Struct("<4sII")
_MAGIC: Final = b"AQIM"
_U32: Final = Struct("<I")


class BatchFormatError(ValueError):
    """Bytes that are no such file, or not all of one."""


def encode_batch(messages: Sequence[bytes]) -> bytes:
    """Return the content of a file."""
    parts = [_U32.pack(len(messages))]
    for message in messages:
        parts += (_U32.pack(len(message)), message)
    content = b"".join(parts)
    return _MAGIC + _U32.pack(crc32c(content)) + content


def decode_batch(data: bytes) -> list[bytes]:
    """Return the messages of a file.

    Raises:
        BatchFormatError: It is none, or something in it was changed.
    """
    if len(data) < _HEAD.size:
        raise BatchFormatError(f"a file of {len(data)} bytes, expected {_HEAD.size} at least")
    magic, checksum, count = _HEAD.unpack_from(data)
    if magic != _MAGIC or crc32c(memoryview(data)[8:]) != checksum:
        raise BatchFormatError("not a file of messages, or not as it was written")
    messages: list[bytes] = []
    position = _HEAD.size
    for _ in range(count):
        (size,) = _U32.unpack_from(data, position)
        position += 4
        messages.append(data[position : position + size])
        position += size
    if position != len(data):
        raise BatchFormatError(f"its messages end at {position}, the file at {len(data)}")
    return messages
