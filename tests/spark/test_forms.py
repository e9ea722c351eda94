"""Columns in other forms: headers as JSON or octets, rows as Kafka's."""

import base64
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from amqp_server.protocol.field_values import DecimalValue, FieldValue
from amqp_server.protocol.tables import decode_table
from appendlog.layout.headers import MalformedHeadersError, split_headers
from appendlog.layout.headers_json import headers_as_json
from appendlog.layout.message import encode_message
from appendlog.spark.decoding.kernel_decoder import KernelDecoder
from appendlog.spark.schema.columns import KNOWN_ROWS, ROWS, RowSchema
from appendlog.spark.schema.forms import HEADERS_FORMS, kafka_rows, with_headers_as
from tests.spark.builders import HEADER_KINDS, plain_messages, records_of
from tests.spark.test_headers import KEYS, VALUES, as_headers

SPARK_TYPES: dict[str, DataType] = {
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "INT": IntegerType(),
    "SMALLINT": ShortType(),
    "BIGINT": LongType(),
    "TIMESTAMP": TimestampType(),
    "MAP<STRING,STRING>": MapType(StringType(), StringType()),
    "ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


@pytest.mark.parametrize(
    "rows",
    [
        KNOWN_ROWS,
        kafka_rows(),
        kafka_rows(include_headers=True),
        *(with_headers_as(form) for form in HEADERS_FORMS),
    ],
    ids=lambda rows: str(rows.names[-1]),
)
def test_arrow_types_are_what_spark_makes_of_the_ddl(rows: RowSchema) -> None:
    spark = StructType([StructField(c.name, SPARK_TYPES[c.spark_type]) for c in rows.columns])
    assert to_arrow_schema(spark, timezone="UTC", prefers_large_types=False) == rows.arrow


def test_kafkas_rows_are_kafkas() -> None:
    assert kafka_rows().ddl == (
        "`key` BINARY, `value` BINARY, `topic` STRING, `partition` INT, `offset` BIGINT, "
        "`timestamp` TIMESTAMP, `timestampType` INT"
    )
    assert kafka_rows(include_headers=True).names == [*kafka_rows().names, "headers"]


def test_a_form_of_headers_changes_nothing_else() -> None:
    assert with_headers_as("map") == KNOWN_ROWS
    raw = with_headers_as("raw", ROWS)
    assert raw.without({"headers"}) == ROWS.without({"headers"})
    assert with_headers_as("json", kafka_rows()) == kafka_rows()


def column(tables: list[bytes | None], rows: RowSchema) -> list[Any]:
    """Return the headers of messages with these tables; None is no headers at all."""
    messages = [
        encode_message(
            1,
            b"",
            b"\xff",
            b"" if table is None else b"\x20\x00" + len(table).to_bytes(4, "big") + table,
            b"body",
        )
        for table in tables
    ]
    batch = KernelDecoder("/", "q", rows).build([records_of(messages)])
    batch.validate(full=True)
    assert batch.schema == rows.arrow
    values: list[Any] = batch.column("headers").to_pylist()
    return values


TWICE = b"\x01aV\x01aS\x00\x00\x00\x01x\x01bt\x01\x01aI\xff\xff\xff\xff"


def test_kafkas_headers_keep_each_value_and_the_key_is_octets() -> None:
    rows = kafka_rows(include_headers=True)
    assert column([None, b"", TWICE, b"\x01", b"\x01\xffx\x00\x00\x00\x02\xff\x00"], rows) == [
        None,
        [],
        [
            {"key": "a", "value": None},
            {"key": "a", "value": b"x"},
            {"key": "b", "value": b"true"},
            {"key": "a", "value": b"-1"},
        ],
        [{"key": "$malformed", "value": b"\x01"}],
        [{"key": "\ufffd", "value": b"\xff\x00"}],
    ]
    message = encode_message(1, b"", b"\xff", b"", b"body")
    batch = KernelDecoder("/", "q", rows).build([records_of([message])])
    assert batch.column("key").to_pylist() == [b"\xff"]


def test_raw_headers_are_the_octets_of_the_table_whatever_they_are() -> None:
    assert column([None, b"", TWICE, b"\x01"], with_headers_as("raw")) == [
        None,
        b"",
        TWICE,
        b"\x01",
    ]


def test_headers_as_json_keep_a_key_that_comes_twice() -> None:
    assert column([None, b"", TWICE, b"\x01"], with_headers_as("json")) == [
        None,
        "{}",
        '{"a":null,"a":"x","b":true,"a":-1}',
        '{"$malformed":"AQ=="}',
    ]


def test_each_kind_has_its_json() -> None:
    decoded = json.loads(headers_as_json(as_headers(HEADER_KINDS)))
    assert decoded == {
        "text": "\u00e9t\u00e9",
        "raw": {"$bytes": "/wA="},
        "octets": {"$bytes": "cGxhaW4="},
        "yes": True,
        "no": False,
        "int8": -128,
        "uint8": 255,
        "int16": -32768,
        "uint16": 65535,
        "int32": -2147483648,
        "uint32": 4294967295,
        "int64": -9223372036854775808,
        "int64L": 9223372036854775807,
        "time": 1700000000,
        "float": 0.5,
        "double": 0.1,
        "nan": {"$double": "NaN"},
        "decimal": {"$decimal": "3.14"},
        "nothing": None,
        "list": [1, {"$bytes": "/g=="}, None],
        "table": {"a": {"b": [True, "\u00e9", 1.5]}},
        "": "",
    }


@given(st.dictionaries(KEYS | st.sampled_from(["$", "$bytes", "$$"]), VALUES, max_size=5))
def test_every_value_can_be_had_again_from_json(table: dict[str, FieldValue]) -> None:
    encoded = as_headers(table)
    found = _unmarked(json.loads(headers_as_json(encoded)))
    expected, _ = decode_table(len(encoded).to_bytes(4, "big") + encoded)
    assert found == {key: _value(field) for key, field in expected.items()}


@given(st.binary(max_size=30))
def test_what_is_no_table_is_a_member_of_its_own(table: bytes) -> None:
    [text] = column([table], with_headers_as("json"))
    try:
        assert text == headers_as_json(table)
    except MalformedHeadersError:
        readable, malformed = split_headers(table)
        expected = json.loads(headers_as_json(readable))
        expected["$malformed"] = base64.b64encode(malformed).decode()
        assert json.loads(text) == expected
    else:
        json.loads(text)


def test_the_octets_of_headers_that_do_not_add_up_are_in_the_row() -> None:
    sound, broken = b"\x01at\x01", b"\x01bZ\x01cV"
    table = b"\x0a$malformedV" + sound + broken

    octets = base64.b64encode(broken).decode()
    assert column([table], with_headers_as("map")) == [[("$malformed", octets), ("a", "true")]]
    assert column([table], with_headers_as("json")) == [
        f'{{"$$malformed":null,"a":true,"$malformed":"{octets}"}}'
    ]
    assert column([table], with_headers_as("raw")) == [table]
    assert column([table], kafka_rows(include_headers=True)) == [
        [
            {"key": "$malformed", "value": None},
            {"key": "a", "value": b"true"},
            {"key": "$malformed", "value": broken},
        ]
    ]


def test_a_table_that_does_not_add_up_counts_in_each_form_that_looks_into_it() -> None:
    message = encode_message(1, b"", b"", b"\x20\x00\x00\x00\x00\x02zz", b"")
    counts = {}
    for form in HEADERS_FORMS:
        builder = KernelDecoder("/", "q", with_headers_as(form))
        builder.build([records_of([message, *plain_messages(2), message])])
        counts[form] = builder.undecodable
    assert counts == {"map": 2, "json": 2, "raw": 0}


def _unmarked(value: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Turn the objects with a mark into what they stand for; doubles by their repr."""
    match value:
        case {"$bytes": str(text)}:
            return base64.b64decode(text)
        case {"$decimal": str(text)}:
            return Decimal(text)
        case {"$double": str(text)}:
            return repr(float(text))
        case dict():
            return {key.removeprefix("$"): _unmarked(each) for key, each in value.items()}
        case list():
            return [_unmarked(each) for each in value]
        case float():
            return repr(value)
        case _:
            return value


def _value(field: FieldValue) -> Any:  # noqa: ANN401 - as above
    """Return what the server's decoder found, as Python has it; doubles by their repr."""
    match field:
        case FieldValue(b"S", bytes(raw)):
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return raw
        case FieldValue(b"D", DecimalValue(scale, unscaled)):
            return Decimal(f"{unscaled}E-{scale}")
        case FieldValue(_, float(number)):
            return repr(math.nan) if math.isnan(number) else repr(number)
        case FieldValue(b"A", list(items)):
            return [_value(item) for item in items]
        case FieldValue(b"F", dict(entries)):
            return {key: _value(each) for key, each in entries.items()}
        case _:
            return field.value
