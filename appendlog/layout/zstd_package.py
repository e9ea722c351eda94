"""One zstd frame, packed and expanded by the package `zstandard`.

Source: RFC 8878.
"""

import zstandard

__all__ = ["FramePacker", "expand_frame"]


class FramePacker:
    """Packs octets; of one thread at a time, holds about a megabyte.

    Args:
        level: Of zstd.
    """

    def __init__(self, level: int) -> None:
        self._compressor = zstandard.ZstdCompressor(level=level)

    def pack(self, octets: memoryview) -> bytes:
        """Return one frame that names its content size."""
        return self._compressor.compress(octets)


def expand_frame(frame: memoryview, expanded_bytes: int) -> bytes | None:
    """Return the content of a frame; None when it is damaged or not of the size expected.

    Nothing larger than `expanded_bytes` is allocated, whatever the frame says.
    """
    try:
        if zstandard.frame_content_size(frame) != expanded_bytes:
            return None
        octets = zstandard.ZstdDecompressor().decompress(frame, max_output_size=expanded_bytes)
    except zstandard.ZstdError:
        return None
    return octets if len(octets) == expanded_bytes else None
