"""The file in which a client passes messages that are too large for a control request.

    "AQIM" | crc32c u32 of what follows | count u32 | (length u32, message) x count

All numbers are little-endian. The file exists for one request, in the data directory, and is never
synced: after a crash of the machine the client sends its messages again.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from appendlog.layout.crc import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_BYTES: Final = 4 << 20
"""Bytes of messages in a file; a larger message gets a file of its own."""
BATCH_MESSAGES: Final = 8192
_HEAD: Final = Struct("<4sII")
_MAGIC: Final = b"AQIM"
_U32: Final = Struct("<I")


class BatchFormatError(ValueError):
    """The bytes are no complete batch file."""


def encode_batch(messages: Sequence[bytes]) -> bytes:
    """Return the content of a file with these messages."""
    parts = [_U32.pack(len(messages))]
    for message in messages:
        parts += (_U32.pack(len(message)), message)
    content = b"".join(parts)
    return _MAGIC + _U32.pack(crc32c(content)) + content


def decode_batch(data: bytes) -> list[bytes]:
    """Return the messages of a file.

    Raises:
        BatchFormatError: The content is no batch file, or was damaged.
    """
    if len(data) < _HEAD.size:
        raise BatchFormatError(f"a batch file of {len(data)} bytes, expected at least {_HEAD.size}")
    magic, checksum, count = _HEAD.unpack_from(data)
    if magic != _MAGIC or crc32c(memoryview(data)[8:]) != checksum:
        raise BatchFormatError("not a batch file, or damaged")
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
