"""Short and long strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.strings import (
    decode_longstr,
    decode_shortstr,
    encode_longstr,
    encode_shortstr,
)


@pytest.mark.parametrize(
    ("octets", "text"),
    [(b"\x00", ""), (b"\x01q", "q"), (b"\x03\xe2\x82\xac", "€"), (b"\x01\xff", "\udcff")],
)
def test_short_strings_have_one_octet_of_length(octets: bytes, text: str) -> None:
    assert decode_shortstr(octets, 0) == (text, len(octets))
    assert encode_shortstr(text) == octets


@given(st.binary(max_size=255), st.binary(max_size=8), st.binary(max_size=8))
def test_short_strings_of_any_bytes_survive(raw: bytes, before: bytes, after: bytes) -> None:
    data = before + bytes([len(raw)]) + raw + after
    text, position = decode_shortstr(data, len(before))
    assert position == len(data) - len(after)
    assert encode_shortstr(text) == bytes([len(raw)]) + raw


@pytest.mark.parametrize("text", ["x" * 256, "€" * 86, "\ud800"])
def test_text_that_is_no_short_string_is_refused(text: str) -> None:
    with pytest.raises(FieldSyntaxError):
        encode_shortstr(text)


def test_long_strings_have_four_octets_of_length() -> None:
    assert encode_longstr(b"\x00ab") == b"\x00\x00\x00\x03\x00ab"
    assert decode_longstr(b"-\x00\x00\x00\x03\x00ab-", 1) == (b"\x00ab", 8)


@pytest.mark.parametrize("whole", [b"\x03abc", b"\xff" + b"x" * 255])
def test_a_short_string_cut_anywhere_is_refused(whole: bytes) -> None:
    for end in range(len(whole)):
        with pytest.raises(FieldSyntaxError):
            decode_shortstr(whole[:end], 0)


def test_a_long_string_cut_anywhere_is_refused() -> None:
    whole = encode_longstr(b"abc")
    for end in range(len(whole)):
        with pytest.raises(FieldSyntaxError):
            decode_longstr(whole[:end], 0)
