"""An ack for each delivery, encoded at the speed of a copy."""

import struct
from typing import Final

from bench.amqp_frames import BASIC, FRAME_END, METHOD

_BLOCK_TAGS: Final = 1 << 16
_HIGH_TAG: Final = struct.Struct(">Q")
_HIGH_BYTES: Final = 6
_HEAD: Final = struct.pack(">BHIHH", METHOD, 0, 13, BASIC, 80)
_TAIL: Final = bytes((0, FRAME_END))
_FRAME_BYTES: Final = len(_HEAD) + _HIGH_TAG.size + len(_TAIL)


class SingleAcks:
    """Encoder of basic.ack frames with multiple = 0 for ranges of delivery tags.

    The high six bytes are the same in 65,536 delivery tags in a row. One `bytes.join` with these
    six bytes therefore encodes all their frames, and the acks of a range are a slice of the result.

    Args:
        channel: Number of the consumer's channel.
    """

    def __init__(self, channel: int) -> None:
        head = _HEAD[:1] + struct.pack(">H", channel) + _HEAD[3:]
        lows = [struct.pack(">H", low) for low in range(_BLOCK_TAGS)]
        self._between = [head, *(low + _TAIL + head for low in lows[:-1]), lows[-1] + _TAIL]
        self._block = -1
        self._frames = memoryview(b"")

    def encode(self, first_tag: int, end_tag: int) -> bytes:
        """Encode an ack for each tag of a range.

        Args:
            first_tag: First tag, from 1.
            end_tag: Tag after the last one.
        """
        pieces = []
        while first_tag < end_tag:
            block, low = divmod(first_tag, _BLOCK_TAGS)
            piece_end = min(end_tag, (block + 1) * _BLOCK_TAGS)
            if block != self._block:
                self._enter(block)
            end = low + piece_end - first_tag
            pieces.append(self._frames[low * _FRAME_BYTES : end * _FRAME_BYTES])
            first_tag = piece_end
        return b"".join(pieces)

    def _enter(self, block: int) -> None:
        high = _HIGH_TAG.pack(block * _BLOCK_TAGS)[:_HIGH_BYTES]
        self._block = block
        self._frames = memoryview(high.join(self._between))
