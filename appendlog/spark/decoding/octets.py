"""Octets as numpy sees them: numbers at many places at once.

Every place must have been proved to lie inside the octets, or be kept inside by the caller.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Octets = NDArray[np.uint8]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_U32: Final = np.dtype("<u4")
_U16_NETWORK: Final = np.dtype(">u2")
_U32_NETWORK: Final = np.dtype(">u4")
_U64_NETWORK: Final = np.dtype(">u8")


def inside(octets: Octets, places: Integers, size: int) -> Integers:
    """Move places at which nothing of some size has room to the last one at which it has.

    For what reads before it knows: bytes that do not add up are found out afterwards.
    """
    return np.minimum(places, len(octets) - size)


def u8_at(octets: Octets, places: Integers) -> Integers:
    """Return the octet at each place."""
    return octets[places].astype(np.int64)


def u32_at(octets: Octets, places: Integers) -> Integers:
    """Return the little-endian u32 at each place."""
    return numbers_at(octets, places, _U32).astype(np.int64)


def network_u16_at(octets: Octets, places: Integers) -> Integers:
    """Return the big-endian u16 at each place."""
    return numbers_at(octets, places, _U16_NETWORK).astype(np.int64)


def network_u32_at(octets: Octets, places: Integers) -> Integers:
    """Return the big-endian u32 at each place."""
    return numbers_at(octets, places, _U32_NETWORK).astype(np.int64)


def network_u64_at(octets: Octets, places: Integers) -> NDArray[np.uint64]:
    """Return the big-endian u64 at each place."""
    return numbers_at(octets, places, _U64_NETWORK).astype(np.uint64)


def numbers_at(octets: Octets, places: Integers, layout: np.dtype[Any]) -> NDArray[Any]:
    """Return the number of some layout at each place, which need not be a multiple of its size."""
    if not len(places):
        return np.empty(0, layout)
    overlapping: NDArray[Any] = np.ndarray(
        (len(octets) - layout.itemsize + 1,), layout, octets.data, strides=(1,)
    )
    return overlapping[places]
