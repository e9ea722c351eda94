"""Many chunk headers as vectors.

Source: docs/log-format.md, section 3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from appendlog.layout.format import CHUNK_HEADER_BYTES
from appendlog.spark.decoding.octets import Integers, Mask, Octets

_HEADER: Final = np.dtype(
    [
        ("magic", "<u4"),
        ("crc", "<u4"),
        ("length", "<u4"),
        ("version", "u1"),
        ("kind", "u1"),
        ("flags", "<u2"),
        ("salt", "<u4"),
        ("record_count", "<u4"),
        ("base_offset", "<i8"),
        ("last_offset_delta", "<u4"),
        ("transient_count", "<u4"),
        ("body_bytes", "<u8"),
        ("first_timestamp_ns", "<i8"),
        ("not_read", "V32"),
    ]
)

assert _HEADER.itemsize == CHUNK_HEADER_BYTES


class Chunks(NamedTuple):
    """Chunks in a row.

    Attributes:
        starts: Positions.
        stops: Positions behind them.
        headers: Of `_HEADER`.
        end_offsets: Offset behind each; of a control chunk, where the log goes on.
        is_passed: Whether none of the records is asked for.
    """

    starts: Integers
    stops: Integers
    headers: NDArray[np.void]
    end_offsets: Integers
    is_passed: Mask

    def first(self, count: int) -> Chunks:
        """Return the first few of them."""
        return Chunks(
            self.starts[:count],
            self.stops[:count],
            self.headers[:count],
            self.end_offsets[:count],
            self.is_passed[:count],
        )


def headers_at(octets: Octets, starts: Integers) -> NDArray[np.void]:
    """Return the chunk headers at some positions, where whole chunks were found."""
    if not len(starts):
        return np.empty(0, _HEADER)
    overlapping = np.ndarray(
        (len(octets) - CHUNK_HEADER_BYTES + 1,), _HEADER, octets.data, strides=(1,)
    )
    return overlapping[starts]


def first_true(mask: Mask) -> int:
    """Return the first place that is true, the length when none is."""
    return int(mask.argmax()) if mask.any() else len(mask)
