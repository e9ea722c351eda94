import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp_server.protocol.field_values import table_of
from amqp_server.protocol.properties import Properties
from appendlog.layout.message import encode_message
from appendlog.spark.decoding.arrow_batches import BatchBuilder, MalformedMessageError
from appendlog.spark.schema.columns import ROWS
from tests.spark.builders import all_kinds_of_messages, plain_messages
from tests.spark.plain_reader import table_rows


def build(messages: list[bytes]) -> pa.RecordBatch:
    builder = BatchBuilder("/", "orders")
    batch = builder.build(range(len(messages)), [1_999] * len(messages), messages)
    batch.validate(full=True)
    assert batch.schema == ROWS.arrow
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
    assert table_rows(build(plain_messages(1)))[0]["timestamp"] == 1


def test_messages_with_unreadable_properties_are_counted_and_kept() -> None:
    builder = BatchBuilder("/", "orders")
    broken = encode_message(1, b"e", b"k", b"\x80\x00\x09", b"body")
    messages = [broken, *plain_messages(2), broken]
    rows = table_rows(builder.build(range(4), [0] * 4, messages))
    assert builder.undecodable == 2
    assert [row["content_type"] for row in rows] == [None, "text/plain", "text/plain", None]
    assert rows[0]["value"] == b"body"


@pytest.mark.parametrize("size", [7, 8, 12])
def test_a_message_that_ends_inside_its_route_names_its_offset(size: int) -> None:
    message = plain_messages(1)[0][:size]
    with pytest.raises(MalformedMessageError) as caught:
        BatchBuilder("/", "orders").build([41], [0], [message])
    assert caught.value.offset == 41


def test_names_that_are_not_utf8_are_made_so() -> None:
    batch = BatchBuilder("\udcff", "\udcfe").build([0], [0], plain_messages(1))
    batch.validate(full=True)
    assert (batch.column("vhost")[0].as_py(), batch.column("topic")[0].as_py()) == (
        "\ufffd",
        "\ufffd",
    )
