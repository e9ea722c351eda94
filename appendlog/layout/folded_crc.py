"""CRC-32C in numpy, for Pythons without the package `crc32c`: more than 1 GB/s in long chunks.

A CRC is the remainder of a polynomial, so octets may be added (XOR) to others further behind
if the sum of the shifts is a multiple of the CRC's polynomial P. With z = x^8,

    z^5685 + z^1362 + z^426 + 1                     and
    z^290  + z^136  + z^113 + z^107 + z^32 + 1      are multiples of P,

and as squaring is linear, so are these with all exponents doubled, again and again. So the
first 4323 octets (5685 - 1362, or 8646, or ...) are cleared by three XORs of whole slices,
then the next ones, until 290 octets are left; of these each has a table. Many pieces at once
are the rows of a matrix.

The only module of the storage libraries that imports numpy, and only when it is asked for.

Source: the method is folding as CRC instructions do it, without these instructions; the
multiples were found by a search, and tests/appendlog/test_folded_crc.py proves them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL: Final = 0x82F63B78
"""Castagnoli, bits reversed."""
MULTIPLES: Final = ((5685, 1362, 426, 0), (290, 136, 113, 107, 32, 0))
"""Exponents of z in two multiples of the polynomial."""
TABLED_OCTETS: Final = 290
ALONE_OCTETS: Final = 256 << 10
"""Longer pieces gain nothing from company."""

_SLOW_OCTETS: Final = 48
_DOUBLINGS: Final = 16
_START: Final = 0xFFFFFFFF

Octets = NDArray[np.uint8]


def _octet_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


def _tail_tables() -> NDArray[np.uint32]:
    """Return what each octet adds to the CRC, by its place in the last `TABLED_OCTETS`."""
    tables = np.empty((TABLED_OCTETS, 256), np.uint32)
    tables[-1] = first = _octet_table()
    for place in range(TABLED_OCTETS - 2, -1, -1):
        behind = tables[place + 1]
        tables[place] = behind >> 8 ^ first[behind & 255]
    return tables.reshape(-1)


def _levels() -> list[tuple[int, list[int]]]:
    """Return (octets that must be left, shifts with the shortest first), longest first."""
    levels: list[tuple[int, list[int]]] = []
    for exponents in MULTIPLES:
        degree = exponents[0]
        shifts = [degree - exponent for exponent in exponents[1:]]
        levels += [
            (degree << double, [shift << double for shift in shifts])
            for double in range(_DOUBLINGS)
            if exponents is MULTIPLES[0] or degree << double < MULTIPLES[0][0]
        ]
    return sorted(levels, reverse=True)


_OCTET_TABLE: Final[list[int]] = _octet_table().tolist()
_TAIL_TABLES: Final = _tail_tables()
_TAIL_ROWS: Final = np.arange(TABLED_OCTETS, dtype=np.intp) * 256
_LEVELS: Final = _levels()


def crc32c(data: bytes | memoryview | Octets, value: int = 0) -> int:
    """Return the CRC-32C of some octets.

    Args:
        data: Any buffer of octets; not changed.
        value: CRC of what stands before them.
    """
    octets = np.frombuffer(data, np.uint8)
    if len(octets) < _SLOW_OCTETS:
        crc = value ^ _START
        for octet in octets.tolist():
            crc = crc >> 8 ^ _OCTET_TABLE[(crc ^ octet) & 255]
        return crc ^ _START
    row = octets.reshape(1, -1).copy()
    row[0, :4] ^= np.frombuffer((value ^ _START).to_bytes(4, "little"), np.uint8)
    return int(_fold(row)[0])


def crc32c_each(data: Octets, starts: Sequence[int], stops: Sequence[int]) -> list[int]:
    """Return the CRC-32C of each piece `data[start:stop]`.

    Args:
        data: Not changed.
        starts: Where they begin.
        stops: Where they end; all are 4 octets long at least.
    """
    sums = [0] * len(starts)
    alike: dict[int, list[int]] = {}
    for at, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        if stop - start < ALONE_OCTETS:
            alike.setdefault((stop - start).bit_length(), []).append(at)
        else:
            sums[at] = crc32c(data[start:stop])
    for places in alike.values():
        pieces = [data[starts[at] : stops[at]] for at in places]
        for at, crc in zip(places, _fold(_matrix(pieces)).tolist(), strict=True):
            sums[at] = crc
    return sums


def _matrix(pieces: Sequence[Octets]) -> Octets:
    """Return the pieces as rows that end together, with the start of the CRC in them."""
    width = max(len(piece) for piece in pieces)
    rows = np.zeros((len(pieces), width), np.uint8)
    for row, piece in zip(rows, pieces, strict=True):
        row[width - len(piece) :] = piece
    begins = np.array([width - len(piece) for piece in pieces])[:, None] + np.arange(4)
    rows[np.arange(len(pieces))[:, None], begins] ^= 0xFF
    return rows


def _fold(rows: Octets) -> NDArray[np.uint32]:
    """Return the CRC of each row, to whose front its start was added; changes the rows."""
    width = rows.shape[1]
    front = 0
    for degree, shifts in _LEVELS:
        while width - front > degree:
            size = min(shifts[0], width - front - degree)
            cleared = rows[:, front : front + size]
            for shift in shifts:
                rows[:, front + shift : front + shift + size] ^= cleared
            front += size
    places = rows[:, front:] + _TAIL_ROWS[front - width :]
    sums: NDArray[np.uint32] = np.bitwise_xor.reduce(_TAIL_TABLES.take(places), axis=1)
    return sums ^ np.uint32(_START)
