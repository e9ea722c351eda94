import pytest
from hypothesis import given
from hypothesis import strategies as st

from appendlog.layout.message import (
    HAS_PRIORITY,
    PERSISTENT,
    MessageView,
    body_position,
    decode_message,
    encode_message,
    properties_position,
)
from appendlog.layout.message_properties import priority_and_expiration

names = st.binary(max_size=255)


@given(st.integers(0, 15), names, names, st.binary(max_size=50), st.binary(max_size=50))
def test_a_message_comes_back_bit_for_bit(
    flags: int, exchange: bytes, key: bytes, properties: bytes, body: bytes
) -> None:
    message = encode_message(flags, exchange, key, properties, body)
    assert decode_message(message) == MessageView(flags, exchange, key, properties, body)
    assert message[body_position(message) :] == body
    assert message[properties_position(message) :] == properties + body


def test_the_layout_is_the_documented_one() -> None:
    message = encode_message(PERSISTENT | HAS_PRIORITY, b"ex", b"key", b"\x08\x00\x05", b"body")
    assert message == b"\x09" + b"\x02ex" + b"\x03key" + b"\x03\0\0\0" + b"\x08\x00\x05" + b"body"
    assert decode_message(message).is_persistent


def test_a_message_that_ends_inside_a_part_is_refused() -> None:
    message = encode_message(1, b"exchange", b"key", b"\x10\x00\x02", b"")
    for size in range(len(message)):
        with pytest.raises(ValueError, match="message"):
            decode_message(message[:size])


def test_names_longer_than_a_short_string_are_refused() -> None:
    with pytest.raises(ValueError, match="range"):
        encode_message(1, b"x" * 256, b"", b"", b"")


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
    assert priority_and_expiration(properties) == found


@given(st.binary(max_size=60))
def test_any_property_bytes_give_an_answer(properties: bytes) -> None:
    priority, expiration = priority_and_expiration(properties)
    assert -1 <= priority <= 255
    assert -1 <= expiration <= 10**12
