"""The columns of properties are what the server's own decoder reads from the same bytes."""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.properties import decode_properties as decode_as_the_server
from appendlog.layout.message import encode_message
from appendlog.spark.decoding.kernel_decoder import PROPERTY_COLUMNS, KernelDecoder
from appendlog.spark.schema.columns import ROWS
from tests.spark.builders import records_of
from tests.spark.plain_reader import clean, message_time_us, table_rows

PROPERTY_ROWS = ROWS.only(PROPERTY_COLUMNS)
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
    timestamp=st.none() | st.integers(0, 2**64 - 1) | st.integers(253_402_214_399, 253_402_214_400),
    type=TEXT,
    user_id=TEXT,
    app_id=TEXT,
    cluster_id=TEXT,
)


def decoded(data: bytes) -> tuple[dict[str, Any], bool]:
    """Return the columns of a property list, and whether all of it could be read."""
    decoder = KernelDecoder("/", "q", PROPERTY_ROWS)
    [row] = table_rows(decoder.build([records_of([encode_message(1, b"", b"", data, b"")])]))
    return row, not decoder.undecodable


def expected_values(properties: Properties) -> dict[str, str | int | None]:
    values = asdict(properties)
    seconds = values.pop("timestamp")
    del values["headers"]
    values = {
        name: clean(value) if isinstance(value, str) else value for name, value in values.items()
    }
    return values | {"message_timestamp": message_time_us(seconds)}


@given(PROPERTIES)
def test_every_property_reads_as_it_was_set(properties: Properties) -> None:
    row, is_readable = decoded(properties.encode())
    assert is_readable
    assert row.pop("headers") == properties.headers
    assert row == expected_values(properties)


@given(st.binary(min_size=2, max_size=40) | PROPERTIES.map(lambda p: p.encode()[:-1]))
def test_bytes_that_the_server_refuses_give_nulls_and_no_error(data: bytes) -> None:
    row, is_readable = decoded(data)
    try:
        accepted = decode_as_the_server(data)
    except FieldSyntaxError:
        assert not is_readable
        assert row["headers"] is None
    else:
        assert is_readable
        del row["headers"]
        assert row == expected_values(accepted)


@pytest.mark.parametrize("data", [b"", b"\x00\x00", b"\x00\x01\x00\x00"])
def test_no_property_is_readable_and_null(data: bytes) -> None:
    row, is_readable = decoded(data)
    assert is_readable
    assert set(row.values()) == {None}
