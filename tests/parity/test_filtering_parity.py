"""Filters over runs of messages: both builds find what decoding the headers would find.

Needs the compiled kernel: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import importlib
import mmap
from array import array
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.property_octets import HEADERS, find_property
from amqp_server.protocol.readable_headers import split_headers
from amqp_server.protocol.tables import decode_table
from appendlog.layout.message import HAS_HEADERS, decode_message
from tests.protocol.header_tables import entry, longstr, message_with, messages

interpreted, compiled = (
    importlib.import_module(f"amqp_server.protocol._filtering_{build}") for build in ("py", "c")
)
BUILDS = (interpreted, compiled)
FILTER = b"x-stream-filter-value"


def filter_value(message: bytes) -> bytes | None:
    """Return what the slow way finds."""
    view = decode_message(message)
    if not view.flags & HAS_HEADERS:
        return None
    start, end = find_property(view.properties, HEADERS)
    table, _ = decode_table(split_headers(view.properties[start:end])[0])
    value = table.get(FILTER.decode())
    return value.value if value is not None and isinstance(value.value, bytes) else None


def expected_ranges(
    run: list[bytes], values: frozenset[bytes], match_unfiltered: bool
) -> list[tuple[int, int]]:
    found = [filter_value(message) for message in run]
    wanted = [match_unfiltered if value is None else value in values for value in found]
    ranges, place = [], 0
    for is_wanted, alike in groupby(wanted):
        count = len(list(alike))
        if is_wanted:
            ranges.append((place, place + count))
        place += count
    return ranges


def filtered(value: bytes) -> bytes:
    return message_with(entry(b"a", b"V") + entry(FILTER, b"S" + longstr(value)))


@given(
    alike=st.lists(
        st.tuples(
            messages() | st.sampled_from([filtered(b"a"), filtered(b"b"), message_with(b"")]),
            st.integers(1, 3),
        ),
        max_size=8,
    ),
    values=st.frozensets(st.sampled_from([b"", b"a", b"b", b"abcd"])),
    match_unfiltered=st.booleans(),
    gap=st.binary(max_size=3),
    skipped=st.integers(0, 2),
)
def test_both_builds_find_what_decoding_finds(
    alike: list[tuple[bytes, int]],
    values: frozenset[bytes],
    match_unfiltered: bool,
    gap: bytes,
    skipped: int,
) -> None:
    run = [message for message, count in alike for _ in range(count)]
    expected = expected_ranges(run, values, match_unfiltered)
    buffer, positions, lengths = b"", array("I", [0] * skipped), array("I", [0] * skipped)
    for message in run:
        buffer += gap
        positions.append(len(buffer))
        lengths.append(len(message))
        buffer += message
    mapping = mmap.mmap(-1, len(buffer) + 1)
    mapping[: len(buffer)] = buffer

    for build in BUILDS:
        assert build.matching_messages(run, values, match_unfiltered) == expected
        for octets in (buffer, mapping):
            places = (octets, positions, lengths, skipped, skipped + len(run))
            assert build.matching_run(*places, values, match_unfiltered) == expected


@given(octets=st.binary(max_size=60), size=st.integers(0, 80), at=st.integers(0, 60))
def test_both_builds_refuse_what_is_no_message(octets: bytes, size: int, at: int) -> None:
    results = []
    for build in BUILDS:
        try:
            places = (array("I", [at]), array("I", [size]), 0, 1)
            results.append(build.matching_run(octets, *places, frozenset(), True))
        except ValueError as error:
            results.append(str(error))
    assert results[0] == results[1]


@pytest.mark.parametrize("build", BUILDS)
def test_a_run_that_is_not_there_is_refused(build: Any) -> None:  # noqa: ANN401 - a module
    places = array("I", [0]), array("I", [7])
    for start, stop in ((0, 2), (-1, 1)):
        with pytest.raises(ValueError, match="inside"):
            build.matching_run(b"1234567", *places, start, stop, frozenset(), True)


@pytest.mark.parametrize("build", BUILDS)
def test_messages_that_begin_alike_and_differ_in_the_value_are_told_apart(
    build: Any,  # noqa: ANN401 - a module
) -> None:
    run = [filtered(b"a"), filtered(b"a") + b"longer body", filtered(b"b"), filtered(b"a")]

    assert build.matching_messages(run, frozenset([b"a"]), False) == [(0, 2), (3, 4)]
    assert build.matching_messages(run, frozenset([b"A", b"aa", b""]), True) == []


@pytest.mark.parametrize("build", BUILDS)
def test_the_last_of_two_filter_values_counts(build: Any) -> None:  # noqa: ANN401 - a module
    first, last = entry(FILTER, b"S" + longstr(b"a")), entry(FILTER, b"x" + longstr(b"b"))
    run = [message_with(first + last), message_with(last + first)]

    assert build.matching_messages(run, frozenset([b"a"]), False) == [(1, 2)]
    assert build.matching_messages(run, frozenset([b"b"]), True) == [(0, 1)]


def test_one_build_is_compiled_and_the_other_is_not() -> None:
    assert str(interpreted.__file__).endswith(".py")
    assert str(compiled.__file__).endswith(".so")
