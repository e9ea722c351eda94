import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.properties import decode_properties
from amqp_server.protocol.tables import decode_table
from appendlog import Record, StoredRecord
from appendlog.embedded.records import message_prefix, payloads_of
from appendlog.layout.headers import HeaderValue, decode_header_values, decode_headers
from appendlog.layout.headers_encoding import encode_header_values

VALUES: st.SearchStrategy[HeaderValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    # Bytes that are UTF-8 stay bytes: their kind says so.
    | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
HEADERS = st.dictionaries(st.text(max_size=40), VALUES, max_size=5)


def stored(record: Record) -> StoredRecord:
    return StoredRecord(0, 0, message_prefix(record.key, record.headers) + record.payload)


@given(st.binary(), st.binary(max_size=255), st.none() | HEADERS)
def test_what_comes_back_is_what_went_in(
    payload: bytes, key: bytes, headers: dict[str, HeaderValue] | None
) -> None:
    found = stored(Record(payload, key, headers))
    assert (found.payload, found.key, found.headers) == (payload, key, headers)


@given(HEADERS)
def test_headers_are_a_table_that_the_server_reads(headers: dict[str, HeaderValue]) -> None:
    table = encode_header_values(headers)
    decoded, _ = decode_table(len(table).to_bytes(4, "big") + table)
    assert list(decoded) == list(headers)


@given(HEADERS)
def test_headers_as_text_are_those_of_the_export(headers: dict[str, HeaderValue]) -> None:
    texts = decode_headers(encode_header_values(headers))
    assert texts.keys() == headers.keys()
    assert all(texts[key] == value for key, value in headers.items() if isinstance(value, str))


@pytest.mark.parametrize("headers", [None, {}, {"a": 1}])
def test_a_record_is_a_persistent_message_to_a_server(
    headers: dict[str, HeaderValue] | None,
) -> None:
    properties = decode_properties(stored(Record(b"x", b"k", headers)).properties)
    assert properties.delivery_mode == 2
    assert (properties.headers is None) == (headers is None)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"n": 2**63}, "cannot be encoded"),
        ({"o": object()}, "cannot hold a object"),
        ({"k" * 256: 1}, "maximum is 255"),
        ({"\udc80": 1}, "cannot be encoded"),
    ],
)
def test_headers_that_no_table_can_hold_are_refused(
    headers: dict[str, HeaderValue], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        message_prefix(b"", headers)


def test_headers_that_nest_too_deep_are_refused() -> None:
    headers: dict[str, HeaderValue] = {}
    for _ in range(63):
        headers = {"in": headers}
    assert decode_header_values(encode_header_values(headers)) == headers
    with pytest.raises(ValueError, match="nest more than 64"):
        encode_header_values({"in": headers})


def test_a_key_of_more_than_255_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="256 bytes, the maximum is 255"):
        message_prefix(b"k" * 256)


@given(st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=9))))
def test_payloads_are_cut_from_whatever_stands_before_them(
    parts: list[tuple[bytes, bytes]],
) -> None:
    messages = [message_prefix(key) + payload for key, payload in parts]
    assert payloads_of(messages) == [payload for _, payload in parts]
