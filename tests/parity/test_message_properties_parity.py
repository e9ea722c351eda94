"""Priority and expiration, as the log reads them: both builds find the same, in any octets.

Needs the compiled kernel: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

KERNELS = [importlib.import_module(f"appendlog.layout._encoding_{build}") for build in ("py", "c")]


ALL = (
    b"\xff\xf8" + b"\x01t" + b"\x01e" + b"\0\0\0\x02hh" + b"\x02" + b"\x07" + b"\x01c" + b"\x01r"
    b"\x0460000" + b"\x01m" + bytes(8) + b"\x01T" + b"\x01u" + b"\x01a"
)


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        pytest.param(b"", (-1, -1), id="no flags at all"),
        pytest.param(b"\x00\x00", (-1, -1), id="no property"),
        pytest.param(b"\x08\x00\x05", (5, -1), id="priority"),
        pytest.param(b"\x01\x00\x0212", (-1, 12), id="expiration"),
        pytest.param(b"\x09\x00\x05\x010", (5, 0), id="both"),
        pytest.param(ALL, (7, 6000), id="all fourteen"),
        pytest.param(b"\x08\x01\x00\x00\x05", (5, -1), id="a second flags word"),
        pytest.param(b"\x01\x00\x03-10", (-1, -1), id="expiration that is no number"),
        pytest.param(b"\x01\x00\x00", (-1, -1), id="empty expiration"),
        pytest.param(b"\x01\x00\x14" + b"9" * 20, (-1, 10**12), id="very long expiration"),
        pytest.param(b"\x01\x00\x0d" + b"9" * 13, (-1, 10**12), id="long expiration"),
        pytest.param(b"\x01\x00\x14" + b"0" * 18 + b"12", (-1, 12), id="leading zeros"),
        pytest.param(b"\x01\x00\x03+12", (-1, 12), id="a plus sign"),
        pytest.param(b"\x01\x00\x03000", (-1, 0), id="zeros only"),
        pytest.param(b"\x08\x00", (-1, -1), id="cut before the priority"),
        pytest.param(b"\x20\x00\xff\xff\xff\xff", (-1, -1), id="headers without end"),
    ],
)
def test_priority_and_expiration_are_found(properties: bytes, found: tuple[int, int]) -> None:
    around = b"\xff" + properties + b"\xff\xff"
    for kernel in KERNELS:
        assert kernel.priority_and_expiration(properties, 0, len(properties)) == found
        assert kernel.priority_and_expiration(around, 1, len(properties) + 1) == found


@given(
    flags=st.integers(0, 0xFFFF),
    octets=st.binary(max_size=60) | st.lists(st.sampled_from(b"\0\1\2\3059+-")).map(bytes),
)
def test_any_octets_give_the_same_answer(flags: int, octets: bytes) -> None:
    properties = flags.to_bytes(2, "big") + octets

    answer, compiled = (
        kernel.priority_and_expiration(properties, 0, len(properties)) for kernel in KERNELS
    )

    assert answer == compiled
    priority, expiration = answer
    assert -1 <= priority <= 255
    assert -1 <= expiration <= 10**12
