"""Frame of a round: magic, CRC and length, the same in checkpoint and redo files.

Little-endian. The CRC (Castagnoli) covers everything after it, including the length.
docs/checkpoint-format.md and docs/redo-format.md describe it in section 2.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final

from appendlog.layout.crc import crc32c

_FRONT: Final = struct.Struct("<4sIQ")  # magic, CRC, length
_CRC_START: Final = 8
_LENGTH: Final = struct.Struct("<Q")
assert _FRONT.size == 16

FRONT_BYTES: Final = _FRONT.size
"""Size of the frame before the content, in bytes."""


class UnknownVersionError(Exception):
    """A round is whole, but of another version; the reader adds the name of the file.

    Attributes:
        found: Version of the round.
    """

    def __init__(self, found: int) -> None:
        super().__init__(found)
        self.found = found


def encode_front(magic: bytes, contents: Sequence[bytes]) -> bytes:
    """Return the frame to write before the content.

    Args:
        magic: Four octets that identify the kind of file.
        contents: Content, in buffers that are written one after the other.
    """
    length = sum(map(len, contents))
    crc = crc32c(_LENGTH.pack(length))
    for content in contents:
        crc = crc32c(content, crc)
    return _FRONT.pack(magic, crc, length)


def find_content(magic: bytes, data: bytes, position: int, bytes_min: int) -> range | None:
    """Return the place of the content of the round at `position`, or None if it is not valid.

    Args:
        magic: Magic of the kind of file.
        data: Content of the file.
        position: Position of the round.
        bytes_min: Minimum size of the content.
    """
    start = position + FRONT_BYTES
    if start + bytes_min > len(data):
        return None
    found, crc, length = _FRONT.unpack_from(data, position)
    end = start + length
    if found != magic or length < bytes_min or end > len(data):
        return None
    if crc32c(memoryview(data)[position + _CRC_START : end]) != crc:
        return None
    return range(start, end)


def find_front(
    magic: bytes, data: bytes, position: int, decode: Callable[[bytes, int], object | None]
) -> int:
    """Return where the first round at or after `position` begins that `decode` accepts, or -1.

    Raises:
        UnknownVersionError: The first valid round is of another version.
    """
    position = data.find(magic, position)
    while position >= 0 and decode(data, position) is None:
        position = data.find(magic, position + 1)
    return position
