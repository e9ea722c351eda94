"""What interpreted kernels have in place of pointers; the compiled ones have `_places_c.pxd`."""

from collections.abc import Callable
from typing import Any, Final

Places = Any
"""Numbers by their place: an array, or a view of one."""


def octets_of(data: Places) -> memoryview:
    """Return a view: a slice of it is no copy."""
    return memoryview(data)


def as_they_are(places: Places) -> Places:
    """Return places that need no conversion to be stepped through."""
    return places


def copy_octets(stores: Places, to: int, octets: memoryview, start: int, size: int) -> None:
    """Copy `octets[start:start + size]` to place `to` of `stores`."""
    stores[to : to + size] = octets[start : start + size]


def is_same(stores: Places, at: int, octets: memoryview, start: int, size: int) -> bool:
    """Tell whether `size` octets are the same in both."""
    return bool(stores[at : at + size] == octets[start : start + size])


def ascii_end(octets: memoryview, at: int, end: int) -> int:
    """Return a place before which all is ASCII: a short cut, which here leads nowhere."""
    return at


def big_endian(octets: memoryview, at: int, width: int) -> int:
    """Load a big-endian number of at most 8 octets."""
    return int.from_bytes(octets[at : at + width], "big")


POINTERS: Final[dict[str, Callable[..., Any]]] = {
    each.__name__: each for each in (octets_of, copy_octets, is_same, ascii_end, big_endian)
} | dict.fromkeys(("stores_of", "ints_of", "uints_of", "shorts_of", "longs_of"), as_they_are)
"""The functions of `_places_c.pxd`, by their names there."""
