"""Substitutes for pointers in interpreted kernels; the compiled ones use `_places_c.pxd`."""

from collections.abc import Callable
from math import isfinite
from struct import unpack
from typing import Any, Final

Places = Any
"""Numbers accessed by index: an array, or a view of one."""


def octets_of(data: Places) -> memoryview:
    """Return a view, whose slices are not copies."""
    return memoryview(data)


def as_they_are(places: Places) -> Places:
    """Return the argument: interpreted kernels index it without conversion."""
    return places


def copy_octets(stores: Places, to: int, octets: memoryview, start: int, size: int) -> None:
    """Copy `octets[start:start + size]` to index `to` of `stores`."""
    stores[to : to + size] = octets[start : start + size]


def is_same(stores: Places, at: int, octets: memoryview, start: int, size: int) -> bool:
    """Return whether `size` octets are the same in both buffers."""
    return bool(stores[at : at + size] == octets[start : start + size])


def same_octets(octets: memoryview, at: int, other: int, size: int) -> bool:
    """Return whether `size` octets are the same at both positions."""
    return bool(octets[at : at + size] == octets[other : other + size])


def put_double(stores: Places, to: int, octets: memoryview, at: int, width: int) -> int:
    """Write a float as `repr` does; return where it ends, or -1 if it is not finite."""
    value: float = unpack(">f" if width == 4 else ">d", octets[at : at + width])[0]
    if not isfinite(value):
        return -1
    text = repr(value).encode()
    stores[to : to + len(text)] = text
    return to + len(text)


def ascii_end(octets: memoryview, at: int, end: int) -> int:
    """Return a position before which all is ASCII; only the compiled build looks for one."""
    return at


def big_endian(octets: memoryview, at: int, width: int) -> int:
    """Load a big-endian number of at most 8 octets."""
    return int.from_bytes(octets[at : at + width], "big")


_AS_THEY_ARE: Final = ("stores_of", "ints_of", "uints_of", "shorts_of", "longs_of")
_FUNCTIONS: Final = (
    octets_of,
    copy_octets,
    is_same,
    same_octets,
    put_double,
    ascii_end,
    big_endian,
)
POINTERS: Final[dict[str, Callable[..., Any]]] = {
    **dict.fromkeys(_AS_THEY_ARE, as_they_are),
    **{each.__name__: each for each in _FUNCTIONS},
}
"""Functions of `_places_c.pxd`, by their names there."""
