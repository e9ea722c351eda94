"""Access to octets and numbers in buffers, for interpreted kernels.

The compiled kernels use `_memory_c.pxd` instead: their `.pxd` imports that under the name under
which their source imports this module. There the functions are C, and buffers are pointers.
"""

from math import isfinite
from struct import Struct, unpack
from typing import Any

Places = Any
"""Numbers accessed by index: an array, or a view of one."""
Octets = bytes | bytearray | memoryview

_RECORD_FRONT = Struct("<III")


def octets_of(data: Places) -> memoryview:
    """Return a view, whose slices are not copies."""
    return memoryview(data)


def stores_of(places: Places) -> Places:
    """Return writable octets as they are, as the next ones do with numbers of their types."""
    return places


ints_of = uints_of = shorts_of = longs_of = stores_of


def unwritten(size: int) -> Places:
    """Return an object of `size` octets, to be filled through `target_of` and then `written`."""
    return bytearray(size)


def target_of(unwritten: Places) -> Places:
    """Return the writable octets of what `unwritten` has returned."""
    return unwritten


def written(filled: Places) -> bytes:
    """Return as bytes what `unwritten` has returned, once all its octets are written."""
    return bytes(filled)


def copy_of(octets: Octets, at: int, size: int) -> bytes:
    """Return a copy of `size` octets."""
    return bytes(octets[at : at + size])


def copy_octets(stores: Places, to: int, octets: Octets, start: int, size: int) -> None:
    """Copy `octets[start:start + size]` to index `to` of `stores`."""
    stores[to : to + size] = octets[start : start + size]


def is_same(stores: Places, at: int, octets: Octets, start: int, size: int) -> bool:
    """Return whether `size` octets are the same in both buffers."""
    return bool(stores[at : at + size] == octets[start : start + size])


def same_octets(octets: Octets, at: int, other: int, size: int) -> bool:
    """Return whether `size` octets are the same at both positions."""
    return octets[at : at + size] == octets[other : other + size]


def u32(octets: Octets, at: int) -> int:
    """Load a little-endian u32; the caller has checked that four octets exist."""
    return int.from_bytes(octets[at : at + 4], "little")


def i64(octets: Octets, at: int) -> int:
    """Load a little-endian signed i64; the caller has checked that eight octets exist."""
    return int.from_bytes(octets[at : at + 8], "little", signed=True)


def record_front(octets: Octets, at: int) -> tuple[int, int, int]:
    """Load the three u32 before a record's message: size, offset delta, timestamp delta."""
    size, offset_delta, timestamp_delta = _RECORD_FRONT.unpack_from(octets, at)
    return size, offset_delta, timestamp_delta


def put_record(
    stores: Places, at: int, size: int, offset_delta: int, timestamp_delta: int, message: bytes
) -> None:
    """Store the three u32 before a record's message, and the message or its first octets."""
    _RECORD_FRONT.pack_into(stores, at, size, offset_delta, timestamp_delta)
    stores[at + 12 : at + 12 + len(message)] = message


def put_double(stores: Places, to: int, octets: Octets, at: int, width: int) -> int:
    """Write a float as `repr` does; return where it ends, or -1 if it is not finite."""
    value: float = unpack(">f" if width == 4 else ">d", octets[at : at + width])[0]
    if not isfinite(value):
        return -1
    text = repr(value).encode()
    stores[to : to + len(text)] = text
    return to + len(text)


def ascii_end(octets: Octets, at: int, end: int) -> int:
    """Return a position before which all is ASCII; only the compiled build looks for one."""
    return at


def big_endian(octets: Octets, at: int, width: int) -> int:
    """Load a big-endian number of at most 8 octets."""
    return int.from_bytes(octets[at : at + width], "big")
