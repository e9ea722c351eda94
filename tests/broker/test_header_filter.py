"""Which messages have the headers that are asked for."""

import pytest

from amqp_server.broker.header_filter import HeaderFilter, matches, parse_filter
from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import HAS_HEADERS, encode_message

MESSAGE = encode_message(
    HAS_HEADERS,
    b"",
    b"key",
    Properties(
        headers={
            "text": FieldValue(b"S", b"a=b c"),
            "number": FieldValue(b"I", 7),
            "long": FieldValue(b"l", -7),
            "double": FieldValue(b"d", 0.5),
            "yes": FieldValue(b"t", True),
            "none": FieldValue(b"V", None),
            "empty": FieldValue(b"S", b""),
        }
    ).encode(),
    b"body",
)


@pytest.mark.parametrize(
    "text", ["text=a=b c", "number=7", "long=-7", "double=0.5", "yes=true", "empty="]
)
def test_a_header_with_this_value_is_found(text: str) -> None:
    assert matches(MESSAGE, [parse_filter(text)])


@pytest.mark.parametrize(
    "text", ["text=a", "number=07", "number=8", "yes=1", "none=", "absent=", "empty=x", "yes=True"]
)
def test_another_value_is_not(text: str) -> None:
    assert not matches(MESSAGE, [parse_filter(text)])


def test_all_filters_have_to_hold() -> None:
    assert matches(MESSAGE, [HeaderFilter("number", "7"), HeaderFilter("yes", "true")])
    assert not matches(MESSAGE, [HeaderFilter("number", "7"), HeaderFilter("yes", "false")])


def test_without_headers_nothing_is_found_and_without_filters_everything() -> None:
    bare = encode_message(0, b"", b"key", Properties().encode(), b"")
    assert not matches(bare, [HeaderFilter("number", "7")])
    assert matches(bare, [])


def test_headers_that_do_not_hold_together_match_nothing() -> None:
    broken = encode_message(
        HAS_HEADERS, b"", b"", b"\x20\x00\x00\x00\x00\x05\xff\xff\xff\xff\xff", b""
    )
    assert not matches(broken, [HeaderFilter("number", "7")])


@pytest.mark.parametrize("text", ["", "header", "=value"])
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HEADER=VALUE"):
        parse_filter(text)
