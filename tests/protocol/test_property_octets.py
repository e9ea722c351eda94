"""Single properties in their octets, against the codec that knows all of them."""

from dataclasses import replace

import pytest
from hypothesis import given

from amqp_server.protocol.properties import Properties
from amqp_server.protocol.property_octets import (
    EXPIRATION,
    HEADERS,
    REPLY_TO,
    USER_ID,
    find_property,
    replace_property,
    with_property,
)
from amqp_server.protocol.strings import decode_shortstr, encode_shortstr
from amqp_server.protocol.tables import encode_table, table_of
from tests.protocol.strategies import properties

SHORT_STRINGS = {REPLY_TO: "reply_to", EXPIRATION: "expiration", USER_ID: "user_id"}


@given(values=properties)
@pytest.mark.parametrize("flag", SHORT_STRINGS)
def test_a_short_string_is_found_and_replaced_among_any_others(
    flag: int, values: Properties
) -> None:
    name = SHORT_STRINGS[flag]
    octets = replace(values, **{name: "found"}).encode()  # type: ignore[arg-type]

    start, end = find_property(octets, flag)

    assert decode_shortstr(octets, start) == ("found", end)
    replaced = replace_property(octets, flag, encode_shortstr("another"))
    # Octets, not values: a NaN among the headers equals nothing.
    assert replaced == replace(values, **{name: "another"}).encode()  # type: ignore[arg-type]


@given(values=properties)
def test_headers_are_found_and_replaced_among_any_others(values: Properties) -> None:
    octets = replace(values, headers=table_of({"a": 1})).encode()

    start, end = find_property(octets, HEADERS)

    assert octets[start:end] == encode_table(table_of({"a": 1}))
    replaced = replace_property(octets, HEADERS, encode_table({}))
    assert replaced == replace(values, headers={}).encode()


@given(values=properties)
@pytest.mark.parametrize("flag", SHORT_STRINGS)
def test_a_property_is_put_in_whether_it_was_there_or_not(flag: int, values: Properties) -> None:
    octets = with_property(values.encode(), flag, encode_shortstr("another"))

    expected = replace(values, **{SHORT_STRINGS[flag]: "another"})  # type: ignore[arg-type]
    assert octets == expected.encode()
