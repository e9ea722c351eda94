"""Octets compared and joined, for the interpreted kernels.

The compiled kernels have functions of the same names from `_octets_c.pxd`, which make no objects in
between. The callers have checked that all octets exist.
"""

from __future__ import annotations

from struct import pack

_FLAGS_OCTETS = tuple(pack("B", flags) for flags in range(16))
"""First octet of a message, by its flags."""


def is_same(data: bytes | bytearray, at: int, expected: bytes, size: int) -> bool:
    """Return whether `size` octets at a position are the expected ones."""
    return data[at : at + size] == expected


def is_repeated(data: bytes | bytearray, at: int, other_at: int, size: int) -> bool:
    """Return whether `size` octets are the same at two positions."""
    return data[at : at + size] == data[other_at : other_at + size]


def joined(prefix: bytes, data: bytes | bytearray, start: int, end: int) -> bytes:
    """Return `prefix` and `data[start:end]` as one object."""
    return prefix + data[start:end]


def message_of(
    flags: int,
    data: bytes | bytearray,
    route_at: int,
    route_end: int,
    properties_at: int,
    properties_end: int,
    body_at: int,
    body_end: int,
) -> bytes:
    """Return a message (docs/log-format.md): flags, route, properties with their size, body."""
    return b"".join(
        (
            _FLAGS_OCTETS[flags],
            data[route_at:route_end],
            pack("<I", properties_end - properties_at),
            data[properties_at:properties_end],
            data[body_at:body_end],
        )
    )
