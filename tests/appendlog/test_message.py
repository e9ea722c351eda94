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
