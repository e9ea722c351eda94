"""CRC-32C in numpy is the CRC-32C of the package, for any octets in any company."""

import crc32c as package
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.layout import crc
from appendlog.layout.folded_crc import (
    ALONE_OCTETS,
    MULTIPLES,
    POLYNOMIAL,
    crc32c,
    crc32c_each,
)

BYTES = np.random.default_rng(1).integers(0, 256, 3 * ALONE_OCTETS, np.uint8).tobytes()
# Around each number of octets at which another shift, or none, is used.
EDGES = sorted(
    {
        (exponents[0] << double) + by
        for exponents in MULTIPLES
        for double in range(5)
        for by in (-1, 0, 1)
    }
)


def test_the_package_is_used_where_it_is_installed() -> None:
    assert type(crc.crc32c) is type(package.crc32c)
    assert not crc.IS_FOLDED


def test_the_exponents_are_of_multiples_of_the_polynomial() -> None:
    for exponents in MULTIPLES:
        remainder = 0
        for exponent in exponents:
            power = 1 << 31  # x^0, bits reversed
            for _ in range(8 * exponent):
                power = power >> 1 ^ (POLYNOMIAL if power & 1 else 0)
            remainder ^= power
        assert remainder == 0


@given(st.binary(max_size=2000), st.integers(0, 2**32 - 1))
def test_any_octets_after_any_others(data: bytes, value: int) -> None:
    assert crc32c(data, value) == package.crc32c(data, value)


@pytest.mark.parametrize("size", [*EDGES, ALONE_OCTETS, len(BYTES)])
def test_any_length(size: int) -> None:
    assert crc32c(memoryview(BYTES)[:size]) == package.crc32c(BYTES[:size])


@given(st.lists(st.integers(4, 3000) | st.integers(4, 2 * ALONE_OCTETS), max_size=12))
def test_many_pieces_at_once(sizes: list[int]) -> None:
    starts = [at * 1000 for at in range(len(sizes))]
    stops = [start + size for start, size in zip(starts, sizes, strict=True)]
    pieces = [BYTES[start:stop] for start, stop in zip(starts, stops, strict=True)]
    found = crc32c_each(np.frombuffer(BYTES, np.uint8), starts, stops)
    assert found == [package.crc32c(piece) for piece in pieces]


def test_what_is_summed_up_stays_as_it_was() -> None:
    data = np.frombuffer(BYTES, np.uint8).copy()
    crc32c_each(data, [0, 100, 200], [90_000, 5000, 204])
    assert data.tobytes() == BYTES
