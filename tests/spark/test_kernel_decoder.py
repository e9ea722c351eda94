import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.field_values import table_of
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import encode_message
from appendlog.spark.decoding.kernel_decoder import KernelDecoder
from appendlog.spark.decoding.malformed import MalformedMessageError
from appendlog.spark.schema.columns import EXPORT_ROWS, KNOWN_ROWS, ROWS, RowSchema
from tests.spark.builders import all_kinds_of_messages, plain_messages, records_of
from tests.spark.plain_reader import table_rows


def build(messages: list[bytes], schema: RowSchema = KNOWN_ROWS) -> pa.RecordBatch:
    batch = KernelDecoder("/", "orders", schema).build([records_of(messages)])
    batch.validate(full=True)
    assert batch.schema == schema.arrow
    return batch


MESSAGES = st.builds(
    lambda exchange, key, headers, message_id, body: encode_message(
        1,
        exchange,
        key,
        Properties(
            headers=None if headers is None else table_of(headers), message_id=message_id
        ).encode(),
        body,
    ),
    st.sampled_from([b"", b"a", b"\xff"]),
    st.sampled_from([b"", b"k", b"a"]),
    st.none() | st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 9), max_size=2),
    st.sampled_from([None, "", "1"]),
    st.binary(max_size=8),
)


@given(st.lists(MESSAGES, min_size=1, max_size=12))
def test_a_batch_of_many_is_the_batches_of_each(messages: list[bytes]) -> None:
    together = table_rows(build(messages))
    alone = [table_rows(build([message]))[0] for message in messages]
    for offset, row in enumerate(alone):
        row["offset"] = offset
    assert together == alone


def test_rows_are_alike_whether_messages_repeat_or_not() -> None:
    messages = all_kinds_of_messages()
    assert (
        table_rows(build(messages))[: len(messages)]
        == table_rows(build(messages * 2))[: len(messages)]
    )


def test_no_headers_and_empty_headers_are_different() -> None:
    messages = [
        encode_message(1, b"", b"", Properties(headers=headers).encode(), b"")
        for headers in (None, {}, table_of({"a": None}), None)
    ]
    assert build(messages).column("headers").to_pylist() == [None, [], [("a", None)], None]


def test_timestamps_are_rounded_down_to_microseconds() -> None:
    records = records_of(plain_messages(3), timestamps_ns=[1_999, -1, 0])
    rows = table_rows(KernelDecoder("/", "orders", KNOWN_ROWS).build([records]))
    assert [row["timestamp"] for row in rows] == [1, -1, 0]
    assert [row["timestamp_ns"] for row in rows] == [1_999, -1, 0]


def test_envelope_and_value_are_the_message_byte_for_byte() -> None:
    messages = [*all_kinds_of_messages(), encode_message(15, b"", b"", b"\x80\x00\x09", b"x")]
    rows = table_rows(build(messages))
    assert [row["envelope"] + row["value"] for row in rows] == messages
    assert not {"envelope", "timestamp_ns", "message_timestamp_raw"} & set(ROWS.names)
    assert EXPORT_ROWS.names[-2:] == ["envelope", "message_timestamp_raw"]


@given(
    st.lists(st.sampled_from(KNOWN_ROWS.names), min_size=1, unique=True),
    st.lists(MESSAGES, max_size=5),
)
def test_a_column_is_the_same_whatever_else_is_asked_for(
    names: list[str], messages: list[bytes]
) -> None:
    everything = table_rows(build(messages))
    schema = KNOWN_ROWS.only(names)
    assert table_rows(build(messages, schema)) == [
        {name: row[name] for name in schema.names} for row in everything
    ]


def test_where_nothing_of_the_messages_is_asked_for_they_are_not_looked_at() -> None:
    names = {"offset", "timestamp", "topic", "partition", "timestampType", "vhost"}
    batch = build([b"", b"no message"], KNOWN_ROWS.only(names))
    assert batch.column("offset").to_pylist() == [0, 1]
    with pytest.raises(MalformedMessageError):
        build([b"", b"no message"], KNOWN_ROWS.only({"value"}))


def test_what_cannot_be_read_counts_where_it_is_asked_for() -> None:
    table = encode_message(1, b"", b"k", b"\xa0\x00\x04text\x00\x00\x00\x02zz", b"")
    properties = encode_message(1, b"", b"k", b"\x80\x00\x09", b"")
    counts = []
    for names in ({"key", "value"}, {"content_type"}, {"headers"}, set(ROWS.names)):
        builder = KernelDecoder("/", "orders", ROWS.only(names))
        rows = table_rows(builder.build([records_of([table, properties, table])]))
        if "headers" in names:
            malformed = {"$malformed": base64.b64encode(b"zz").decode()}
            assert [row["headers"] for row in rows] == [malformed, None, malformed]
        assert {row.get("content_type") for row in rows} <= {"text", None}
        counts.append(builder.undecodable)
    assert counts == [0, 1, 3, 3]


def test_messages_with_unreadable_properties_are_counted_and_kept() -> None:
    builder = KernelDecoder("/", "orders")
    broken = encode_message(1, b"e", b"k", b"\x80\x00\x09", b"body")
    messages = [broken, *plain_messages(2), broken]
    rows = table_rows(builder.build([records_of(messages)]))
    assert builder.undecodable == 2
    assert [row["content_type"] for row in rows] == [None, "text/plain", "text/plain", None]
    assert rows[0]["value"] == b"body"


@pytest.mark.parametrize("size", [7, 8, 12])
def test_a_message_that_ends_inside_its_route_names_its_offset(size: int) -> None:
    message = plain_messages(1)[0][:size]
    with pytest.raises(MalformedMessageError) as caught:
        KernelDecoder("/", "orders").build([records_of([message], [41])])
    assert caught.value.offset == 41


def test_names_that_are_not_utf8_are_made_so() -> None:
    batch = KernelDecoder("\udcff", "\udcfe").build([records_of(plain_messages(1))])
    batch.validate(full=True)
    assert (batch.column("vhost")[0].as_py(), batch.column("topic")[0].as_py()) == (
        "\ufffd",
        "\ufffd",
    )
