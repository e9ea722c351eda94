"""One zstd frame, packed and expanded by Arrow, for Pythons without the package `zstandard`.

A `--py-files` archive can bring no compiled package; Arrow is where Spark's workers are.
Only imported when `zstandard` is missing, and the one place beside the Spark reader that
imports pyarrow.

Source: RFC 8878, section 3.1.1.1 for the head of a frame.
"""

from typing import Final

import pyarrow as pa

__all__ = ["FramePacker", "expand_frame"]

_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_DESCRIPTOR_AT: Final = 4
_SINGLE_SEGMENT: Final = 1 << 5
_DICTIONARY_BYTES: Final = (0, 1, 2, 4)


class FramePacker:
    """Packs octets; of one thread at a time.

    Args:
        level: Of zstd.
    """

    def __init__(self, level: int) -> None:
        self._codec = pa.Codec("zstd", compression_level=level)

    def pack(self, octets: memoryview) -> bytes:
        """Return one frame that names its content size."""
        packed: bytes = self._codec.compress(octets, asbytes=True)
        return packed


def expand_frame(frame: memoryview, expanded_bytes: int) -> bytes | None:
    """Return the content of a frame; None when it is damaged or not of the size expected.

    Nothing larger than `expanded_bytes` is allocated, whatever the frame says.
    """
    if _content_bytes(bytes(frame[:18])) != expanded_bytes:
        return None
    try:
        octets: bytes = pa.Codec("zstd").decompress(
            frame, decompressed_size=expanded_bytes, asbytes=True
        )
    except OSError:
        return None
    return octets


def _content_bytes(head: bytes) -> int:
    """Return the size that a frame names, -1 when it names none or is no frame."""
    if not head.startswith(_MAGIC) or len(head) == _DESCRIPTOR_AT:
        return -1
    descriptor = head[_DESCRIPTOR_AT]
    is_single = bool(descriptor & _SINGLE_SEGMENT)
    size = (int(is_single), 2, 4, 8)[descriptor >> 6]
    at = _DESCRIPTOR_AT + 1 + (not is_single) + _DICTIONARY_BYTES[descriptor & 3]
    field = head[at : at + size]
    if not size or len(field) < size:
        return -1
    return int.from_bytes(field, "little") + (256 if size == 2 else 0)
