"""Both builds of the kernel that counts bodies by size do the same."""

from __future__ import annotations

import importlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.counters.broker_counters import BOUNDS_BYTES
from appendlog.layout.message import encode_message

BUILDS = tuple(
    importlib.import_module(f"amqp_server.protocol._body_sizes_{build}") for build in ("py", "c")
)
SIZES = st.one_of(
    st.integers(0, 300), st.sampled_from([999, 1000, 1001, 9999, 10_000, 10_001, 100_000, 100_001])
)


@given(st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=60), SIZES)))
def test_both_builds_count_alike(parts: list[tuple[bytes, bytes, int]]) -> None:
    messages = [encode_message(0, b"x", key, head, bytes(size)) for key, head, size in parts]
    expected = [0] * (len(BOUNDS_BYTES) + 1)
    for _, _, size in parts:
        expected[sum(size > bound for bound in BOUNDS_BYTES)] += 1
    for build in BUILDS:
        counts = [0] * len(expected)
        assert build.count_bodies(messages, counts) == sum(size for _, _, size in parts)
        assert counts == expected


@pytest.mark.parametrize("build", BUILDS)
def test_a_broken_message_is_an_error(build: object) -> None:
    with pytest.raises(ValueError, match="ends inside"):
        build.count_bodies([b"\x00\x05abc"], [0] * 9)  # type: ignore[attr-defined]
