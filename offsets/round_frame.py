"""The frame around a round: magic, CRC and length, alike in checkpoint and redo files.

Little-endian. The CRC (Castagnoli) covers everything behind it, the length included. Drawn in
docs/checkpoint-format.md and docs/redo-format.md, section 2 of each.
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
"""Size of what stands before the content."""


class UnknownVersionError(Exception):
    """A round is whole, but of another version: the reader says in which file.

    Attributes:
        found: Its version.
    """

    def __init__(self, found: int) -> None:
        super().__init__(found)
        self.found = found


def encode_front(magic: bytes, contents: Sequence[bytes]) -> bytes:
    """Return what goes before the content.

    Args:
        magic: Four octets that tell the kind of file.
        contents: The content, in buffers that will be written one behind the other.
    """
    length = sum(map(len, contents))
    crc = crc32c(_LENGTH.pack(length))
    for content in contents:
        crc = crc32c(content, crc)
    return _FRONT.pack(magic, crc, length)


def find_content(magic: bytes, data: bytes, position: int, bytes_min: int) -> range | None:
    """Return where the content of the round at `position` lies, or None if none is valid there.

    Args:
        magic: Of the kind of file.
        data: The file.
        position: Where the round would begin.
        bytes_min: Shortest content that there can be.
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
    """Return where the first round at or behind `position` begins that `decode` takes, else -1.

    Raises:
        UnknownVersionError: The first valid one is of another version.
    """
    position = data.find(magic, position)
    while position >= 0 and decode(data, position) is None:
        position = data.find(magic, position + 1)
    return position
