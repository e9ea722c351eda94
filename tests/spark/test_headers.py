import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.errors import FieldSyntaxError
from amqp_server.protocol.field_values import DecimalValue, FieldValue
from amqp_server.protocol.tables import decode_table, encode_table
from appendlog.layout.headers import (
    HEADERS_BYTES_MAX,
    HEADERS_DEPTH_MAX,
    MalformedHeadersError,
    decode_headers,
)
from tests.spark.builders import HEADER_KINDS
from tests.spark.plain_reader import header_texts

KEYS = st.text(max_size=20).filter(lambda key: len(key.encode()) <= 255)
INTEGERS = {b"b": 8, b"s": 16, b"I": 32, b"l": 64, b"L": 64}
UNSIGNED = {b"B": 8, b"u": 16, b"i": 32, b"T": 64}


def of_kind(kind: bytes, values: st.SearchStrategy[Any]) -> st.SearchStrategy[FieldValue]:
    return values.map(lambda value: FieldValue(kind, value))


LEAVES = st.one_of(
    *(of_kind(k, st.integers(-(1 << n - 1), (1 << n - 1) - 1)) for k, n in INTEGERS.items()),
    *(of_kind(k, st.integers(0, (1 << n) - 1)) for k, n in UNSIGNED.items()),
    of_kind(b"t", st.booleans()),
    of_kind(b"d", st.floats()),
    of_kind(b"f", st.floats(width=32)),
    of_kind(b"S", st.binary(max_size=30) | st.text(max_size=30).map(str.encode)),
    of_kind(b"x", st.binary(max_size=30)),
    of_kind(b"D", st.builds(DecimalValue, st.integers(0, 255), st.integers(-(2**31), 2**31 - 1))),
    st.just(FieldValue(b"V", None)),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        of_kind(b"A", st.lists(inner, max_size=4))
        | of_kind(b"F", st.dictionaries(KEYS, inner, max_size=4))
    ),
    max_leaves=8,
)


def as_headers(table: dict[str, FieldValue]) -> bytes:
    return encode_table(table)[4:]


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_every_table_reads_as_the_servers_decoder_reads_it(table: dict[str, FieldValue]) -> None:
    encoded = as_headers(table)
    assert decode_headers(encoded) == header_texts(decode_table(encode_table(table))[0])


def test_each_kind_has_its_text() -> None:
    assert decode_headers(as_headers(HEADER_KINDS)) == {
        "text": "\u00e9t\u00e9",
        "raw": "/wA=",
        "octets": "cGxhaW4=",
        "yes": "true",
        "no": "false",
        "int8": "-128",
        "uint8": "255",
        "int16": "-32768",
        "uint16": "65535",
        "int32": "-2147483648",
        "uint32": "4294967295",
        "int64": "-9223372036854775808",
        "int64L": "9223372036854775807",
        "time": "1700000000",
        "float": "0.5",
        "double": "0.1",
        "nan": "NaN",
        "decimal": "3.14",
        "nothing": None,
        "list": '[1,"/g==",null]',
        "table": '{"a":{"b":[true,"\u00e9",1.5]}}',
        "": "",
    }


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_exactly_when_the_server_refuses_them(data: bytes) -> None:
    try:
        accepted = header_texts(decode_table(struct.pack(">I", len(data)) + data)[0])
    except FieldSyntaxError:
        with pytest.raises(MalformedHeadersError):
            decode_headers(data)
    else:
        assert decode_headers(data) == accepted


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), st.data())
def test_a_cut_table_is_refused_or_shorter(
    table: dict[str, FieldValue], data: st.DataObject
) -> None:
    encoded = as_headers(table)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    with contextlib.suppress(MalformedHeadersError):
        assert len(decode_headers(cut)) <= len(table)


def nested(levels: int, kind: bytes) -> bytes:
    inner = b""
    for _ in range(levels - 1):
        inner = (b"\x00" if kind == b"F" else b"") + kind + struct.pack(">I", len(inner)) + inner
    return inner if kind == b"F" else b"\x00" + inner


@pytest.mark.parametrize("kind", [b"F", b"A"])
def test_depth_is_bounded(kind: bytes) -> None:
    assert decode_headers(nested(HEADERS_DEPTH_MAX, kind))
    with pytest.raises(MalformedHeadersError, match="nest"):
        decode_headers(nested(HEADERS_DEPTH_MAX + 1, kind))


def test_size_is_bounded() -> None:
    with pytest.raises(MalformedHeadersError, match="maximum"):
        decode_headers(bytes(HEADERS_BYTES_MAX + 1))


def test_of_a_key_that_is_sent_twice_the_last_value_counts() -> None:
    assert decode_headers(b"\x01ab\x01\x01ab\x02") == {"a": "2"}


def test_a_key_that_is_not_utf8_has_its_bad_bytes_replaced() -> None:
    assert decode_headers(b"\x02\xffkV") == {"\ufffdk": None}
