from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.properties import decode_properties as decode_as_the_server
from appendlog.layout.headers import MalformedHeadersError, decode_headers
from appendlog.spark.decoding.properties import PROPERTY_COLUMNS, decode_properties
from tests.spark.plain_reader import clean

NAMES = [name for name in PROPERTY_COLUMNS if name != "headers"]
TEXT = st.none() | st.text(max_size=20)
OCTET = st.none() | st.integers(0, 255)
PROPERTIES = st.builds(
    Properties,
    content_type=TEXT,
    content_encoding=TEXT,
    headers=st.none() | st.just({}),
    delivery_mode=OCTET,
    priority=OCTET,
    correlation_id=TEXT,
    reply_to=TEXT,
    expiration=TEXT,
    message_id=TEXT,
    timestamp=st.none() | st.integers(0, 2**64 - 1),
    type=TEXT,
    user_id=TEXT,
    app_id=TEXT,
    cluster_id=TEXT,
)


def is_malformed(table: bytes | None) -> bool:
    try:
        decode_headers(table or b"")
    except MalformedHeadersError:
        return True
    return False


def expected_values(properties: Properties) -> dict[str, str | int | None]:
    values = asdict(properties)
    seconds = values.pop("timestamp")
    del values["headers"]
    fits = seconds is not None and seconds * 10**6 < 2**63
    values = {
        name: clean(value) if isinstance(value, str) else value for name, value in values.items()
    }
    return values | {"message_timestamp": seconds * 10**6 if fits else None}


def decoded_values(data: bytes) -> dict[str, str | int | None]:
    values = dict(zip(PROPERTY_COLUMNS, decode_properties(data).values, strict=True))
    del values["headers"]
    return values


@given(PROPERTIES)
def test_every_property_reads_as_it_was_set(properties: Properties) -> None:
    encoded = properties.encode()
    assert decode_properties(encoded).is_readable
    assert decoded_values(encoded) == expected_values(properties)
    assert decode_properties(encoded).table == (None if properties.headers is None else b"")


@given(st.binary(min_size=2, max_size=40) | PROPERTIES.map(lambda p: p.encode()[:-1]))
def test_bytes_that_the_server_refuses_give_nulls_and_no_error(data: bytes) -> None:
    decoded = decode_properties(data)
    try:
        accepted = decode_as_the_server(data)
    except FieldSyntaxError:
        assert not decoded.is_readable or is_malformed(decoded.table)
    else:
        assert decoded.is_readable
        assert decoded_values(data) == expected_values(accepted)


@pytest.mark.parametrize("data", [b"", b"\x00\x00", b"\x00\x01\x00\x00"])
def test_no_property_is_readable_and_null(data: bytes) -> None:
    decoded = decode_properties(data)
    assert decoded.is_readable
    assert set(decoded.values) == {None}
