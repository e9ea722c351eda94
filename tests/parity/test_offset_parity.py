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
from amqp_server.protocol import _writing_py
from amqp_server.protocol.field_values import FieldValue
from tests.protocol.header_tables import entry, longstr, message_with, messages

HEADERS_KERNELS, WRITING_KERNELS = (
    [importlib.import_module(f"amqp_server.protocol.{name}_{build}") for build in ("py", "c")]
    for name in ("_headers", "_writing")
)


def stamped(message: bytes, offset: int) -> bytes:
    return with_header(message, "x-stream-offset", FieldValue(b"l", offset))


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
        interpreted, compiled = (split_of(kernel, properties) for kernel in HEADERS_KERNELS)
        assert interpreted == compiled


def split_of(kernel: Any, properties: bytes) -> Any:  # noqa: ANN401 - a kernel's module
    try:
        return kernel.split_for_offset(properties)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("kernel", WRITING_KERNELS)
def test_what_cannot_be_decoded_stays_behind_the_offset(kernel: Any) -> None:  # noqa: ANN401
    inner = longstr(b"S" + longstr(b"text") + b"l12345678")
    sound, own = entry(b"c", b"t\x01"), entry(b"x-stream-offset", b"V")
    cut_short = entry(b"a", b"F" + longstr(entry(b"b", b"A" + inner)))
    places = (1, b"c", 1, False, 4_096)

    for cut in range(1, len(cut_short)):
        broken = message_with(own + sound + cut_short[:cut])
        expected = message_with(
            sound + entry(b"x-stream-offset", b"l" + pack(">q", 9)) + cut_short[:cut]
        )
        assert kernel.encode_deliveries([broken], *places, 9) == kernel.encode_deliveries(
            [expected], *places
        ), cut


@pytest.mark.parametrize("kernel", WRITING_KERNELS)
def test_many_offsets_of_a_publisher_are_all_replaced(kernel: Any) -> None:  # noqa: ANN401
    own = entry(b"x-stream-offset", b"V")
    message = message_with((own + entry(b"a", b"V") + own) * 3)
    places = (1, b"c", 1, False, 4_096)

    expected = message_with(entry(b"a", b"V") * 3 + entry(b"x-stream-offset", b"l" + pack(">q", 9)))
    assert kernel.encode_deliveries([message], *places, 9) == kernel.encode_deliveries(
        [expected], *places
    )


def test_one_build_is_compiled_and_the_other_is_not() -> None:
    for interpreted, compiled in (HEADERS_KERNELS, WRITING_KERNELS):
        assert str(interpreted.__file__).endswith(".py")
        assert str(compiled.__file__).endswith(".so")
