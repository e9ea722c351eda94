"""Basic properties on the wire."""

import contextlib
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.errors import AmqpError, FieldSyntaxError
from amqp_server.protocol.properties import Properties, decode_properties
from amqp_server.protocol.tables import FieldValue
from tests.protocol.strategies import properties

OCTETS = [
    (b"\x00\x00", Properties()),
    (b"\x80\x00\x03a/b", Properties(content_type="a/b")),
    (b"\x40\x00\x01g", Properties(content_encoding="g")),
    (b"\x20\x00\x00\x00\x00\x04\x01kb\x07", Properties(headers={"k": FieldValue(b"b", 7)})),
    (b"\x20\x00\x00\x00\x00\x00", Properties(headers={})),
    (b"\x10\x00\x02", Properties(delivery_mode=2)),
    (b"\x08\x00\xff", Properties(priority=255)),
    (b"\x04\x00\x01c", Properties(correlation_id="c")),
    (b"\x02\x00\x01r", Properties(reply_to="r")),
    (b"\x01\x00\x0260", Properties(expiration="60")),
    (b"\x00\x80\x01m", Properties(message_id="m")),
    (b"\x00\x40\xff\xff\xff\xff\xff\xff\xff\xff", Properties(timestamp=2**64 - 1)),
    (b"\x00\x20\x01t", Properties(type="t")),
    (b"\x00\x10\x01\xff", Properties(user_id="\udcff")),
    (b"\x00\x08\x01a", Properties(app_id="a")),
    (b"\x00\x04\x00", Properties(cluster_id="")),
    (
        b"\x98\x40\x01t\x02\x05\x00\x00\x00\x00\x00\x00\x00\x07",
        Properties(content_type="t", delivery_mode=2, priority=5, timestamp=7),
    ),
]


@pytest.mark.parametrize(("octets", "value"), OCTETS)
def test_each_property_has_its_flag_and_octets(octets: bytes, value: Properties) -> None:
    assert decode_properties(octets) == value
    assert value.encode() == octets


def test_there_are_fourteen_properties() -> None:
    assert len(fields(Properties)) == 14


@given(properties)
def test_any_properties_survive_octet_for_octet(value: Properties) -> None:
    data = value.encode()
    decoded = decode_properties(data)
    assert decoded.encode() == data
    assert repr(decoded) == repr(value)


@given(properties)
def test_properties_cut_anywhere_are_refused(value: Properties) -> None:
    data = value.encode()
    for end in range(len(data)):
        with pytest.raises(FieldSyntaxError):
            decode_properties(data[:end])


def test_an_empty_further_flag_word_is_read_over() -> None:
    assert decode_properties(b"\x10\x01\x00\x00\x02") == Properties(delivery_mode=2)
    assert decode_properties(b"\x10\x01\x00\x01\x00\x00\x02") == Properties(delivery_mode=2)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x02",  # bit 1 has no property
        b"\x00\x01\x80\x00\x00",  # a property of the second word
        b"\x00\x01",  # no second word
        b"\x00\x01\x00\x01",  # no third word
        b"\x00\x00\x00",  # a byte too many
    ],
)
def test_unknown_properties_and_bytes_left_over_are_refused(data: bytes) -> None:
    with pytest.raises(FieldSyntaxError):
        decode_properties(data)


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_but_amqp_errors(data: bytes) -> None:
    with contextlib.suppress(AmqpError):
        decode_properties(data)


@pytest.mark.parametrize(
    "value",
    [
        Properties(priority=256),
        Properties(timestamp=-1),
        Properties(expiration="9" * 256),
        Properties(headers={"k": FieldValue(b"b", 128)}),
    ],
    ids=repr,
)
def test_a_value_that_does_not_fit_its_property_is_not_encoded(value: Properties) -> None:
    with pytest.raises(FieldSyntaxError):
        value.encode()
