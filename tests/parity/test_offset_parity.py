"""Deliveries with `x-stream-offset`: both builds write what `with_header` and a plain one would.

Needs the compiled kernel: `python setup.py build_ext --inplace`.
"""

from __future__ import annotations

import importlib
from array import array
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.broker.transfers.message_headers import with_header
from amqp_server.protocol import _headers_py, _writing_py
from amqp_server.protocol.field_values import FieldValue
from appendlog.layout.message import encode_message
from tests.protocol import wire

HEADERS_KERNELS, WRITING_KERNELS = (
    [importlib.import_module(f"amqp_server.protocol.{name}_{build}") for build in ("py", "c")]
    for name in ("_headers", "_writing")
)

NAME = b"x-stream-offset"
OWN = [
    wire.short_string(NAME) + b"l" + bytes(8),
    wire.short_string(NAME) + b"V",
    wire.short_string(NAME) + b"S\x00\x00\x00\x01a",
    wire.short_string(b"x-stream-offseT") + b"t\x01",
    wire.short_string(b"x-stream-offset ") + b"t\x01",
]
KINDS = b"SxFAbBtsuIifDlLTdV"


def longstr(octets: bytes) -> bytes:
    return pack(">I", len(octets)) + octets


fixed_values = st.sampled_from(
    [b"V", b"t\x07", b"b\x01", b"B\x02", b"s12", b"u12", b"I1234", b"i1234", b"f1234", b"D12345"]
    + [kind + b"12345678" for kind in (b"l", b"L", b"T", b"d")]
)
keys = st.binary(max_size=3).map(wire.short_string)


def entries_of(values: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    entry = st.builds(bytes.__add__, keys, values) | st.sampled_from(OWN)
    return st.lists(entry, max_size=4).map(b"".join)


values = st.recursive(
    fixed_values | st.binary(max_size=4).map(lambda value: b"S" + longstr(value)),
    lambda inner: (
        entries_of(inner).map(lambda entries: b"F" + longstr(entries))
        | st.lists(inner, max_size=3).map(lambda items: b"A" + longstr(b"".join(items)))
    ),
    max_leaves=6,
)
whole_entries = entries_of(values)


@st.composite
def damaged_entries(draw: st.DrawFn) -> bytes:
    entries = bytearray(draw(whole_entries))
    for place, octet in draw(
        st.lists(
            st.tuples(st.integers(0, 200), st.sampled_from([0, 1, 2, 255, *KINDS])),
            min_size=1,
            max_size=3,
        )
    ):
        if entries:
            entries[place % len(entries)] = octet
    cut = draw(st.integers(0, 60))
    return bytes(entries[: len(entries) - cut] if cut < 20 else entries)


def nested(depth: int) -> bytes:
    entries = b""
    for _ in range(depth):
        entries = b"\x01aF" + longstr(entries)
    return entries


any_entries = (
    whole_entries
    | damaged_entries()
    | st.binary(max_size=30)
    | st.sampled_from([nested(depth) for depth in (62, 63, 64, 65, 70)])
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Any of the 14 properties, any headers, whole or not."""
    listed = draw(wire.property_lists())
    flags = listed.message_flags & ~2
    properties = listed.octets
    present = int.from_bytes(properties[:2], "big")
    if present & 1 << 13:
        at = _headers_py.headers_position(properties, 0, len(properties))
        end = at + 4 + int.from_bytes(properties[at : at + 4], "big")
        properties = properties[:at] + longstr(draw(any_entries)) + properties[end:]
        flags |= 2
    route = draw(st.sampled_from([(b"", b"q"), (b"e" * 255, b""), (b"", b"k" * 255)]))
    return encode_message(flags, *route, properties, draw(wire.bodies))


def stamped(message: bytes, offset: int) -> bytes:
    return with_header(message, NAME.decode(), FieldValue(b"l", offset))


@given(
    alike=st.lists(st.tuples(messages(), st.integers(1, 3)), max_size=4),
    consumer_tag=st.binary(max_size=8) | st.just(b"c" * 255),
    first_tag=st.sampled_from([1, 2**32 - 1, 2**63]),
    frame_max=st.sampled_from([4_096, 131_072]),
    first_offset=st.sampled_from([0, 255, 2**32 - 1, 2**62 - 10]),
    gap=st.binary(max_size=3),
)
def test_offsets_are_written_as_headers_would_be(
    alike: list[tuple[bytes, int]],
    consumer_tag: bytes,
    first_tag: int,
    frame_max: int,
    first_offset: int,
    gap: bytes,
) -> None:
    run = [message for message, count in alike for _ in range(count)]
    places = (7, consumer_tag, first_tag, False, frame_max)
    expected = _writing_py.encode_deliveries(
        [stamped(message, offset) for offset, message in enumerate(run, first_offset)], *places
    )
    buffer, positions, lengths = b"", array("I"), array("I")
    for message in run:
        buffer += gap
        positions.append(len(buffer))
        lengths.append(len(message))
        buffer += message

    for kernel in WRITING_KERNELS:
        assert kernel.encode_deliveries(run, *places, first_offset) == expected
        encoded = kernel.encode_run(
            buffer, positions, lengths, 0, len(run), *places, first_offset=first_offset
        )
        assert encoded == expected


@given(octets=st.binary(max_size=60), flags=st.sampled_from([0, 0x2000, 0xE000, 0xA000, 0x6000]))
def test_property_lists_that_do_not_hold_together_are_refused_alike(
    octets: bytes, flags: int
) -> None:
    for properties in (octets, pack(">H", flags) + octets):
        assert split_of(_headers_py, properties) == split_of(HEADERS_KERNELS[1], properties)


def split_of(kernel: Any, properties: bytes) -> Any:  # noqa: ANN401 - a kernel's module
    try:
        return kernel.split_for_offset(properties)
    except ValueError as error:
        return str(error)


def message_with(entries: bytes) -> bytes:
    return encode_message(2, b"", b"q", b"\x20\x00" + longstr(entries), b"body")


@pytest.mark.parametrize("kernel", WRITING_KERNELS)
def test_a_table_cut_anywhere_is_left_out(kernel: Any) -> None:  # noqa: ANN401 - a module
    entries = b"\x01aF" + longstr(b"\x01bA" + longstr(b"S" + longstr(b"text") + b"l12345678"))
    places = (1, b"c", 1, False, 4_096)
    expected = kernel.encode_deliveries([stamped(message_with(b""), 9)], *places)

    for cut in range(1, len(entries)):
        broken = message_with(entries[:cut])
        assert kernel.encode_deliveries([broken], *places, 9) == expected, cut


def test_one_build_is_compiled_and_the_other_is_not() -> None:
    for interpreted, compiled in (HEADERS_KERNELS, WRITING_KERNELS):
        assert str(interpreted.__file__).endswith(".py")
        assert str(compiled.__file__).endswith(".so")
