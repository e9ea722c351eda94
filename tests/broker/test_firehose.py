"""The trace of a message: what becomes of unusual ones."""

from __future__ import annotations

import pytest

from amqp_server.broker.firehose.trace_message import (
    HEADER_BYTES_MAX,
    HEADER_VALUES_MAX,
    QUEUES_MAX,
    TRACE_EXCHANGE,
    Delivery,
    Origin,
    Publish,
    trace_of,
)
from amqp_server.protocol.field_values import TABLE_DEPTH_MAX, FieldValue, Table
from amqp_server.protocol.properties import Properties, decode_properties
from appendlog.layout.message import HAS_HEADERS, decode_message, encode_message

ORIGIN = Origin("/", "127.0.0.1:1 -> 127.0.0.1:2", 7, "guest")
PUBLISH = Publish(ORIGIN, ("q",))
DELIVERY = Delivery(ORIGIN, "q", redelivered=True)


def message(
    properties: Properties | bytes = b"\0\0", exchange: bytes = b"x", key: bytes = b"k"
) -> bytes:
    octets = properties if isinstance(properties, bytes) else properties.encode()
    flags = HAS_HEADERS if octets[0] & 0x20 else 0
    return encode_message(flags, exchange, key, octets, b"")


def headers_of(trace: bytes | None) -> Table:
    assert trace is not None
    headers = decode_properties(decode_message(trace).properties).headers
    assert headers is not None
    return headers


def properties_in(trace: bytes | None) -> Table:
    fields = headers_of(trace)["properties"].value
    assert isinstance(fields, dict)
    return fields


def nested(depth: int) -> Table:
    table: Table = {}
    for _ in range(depth - 1):
        table = {"t": FieldValue(b"F", table)}
    return table


@pytest.mark.parametrize("happened", [PUBLISH, DELIVERY])
def test_a_trace_is_not_traced(happened: Publish | Delivery) -> None:
    assert trace_of(message(exchange=TRACE_EXCHANGE.encode()), happened) is None


def dead_letter(exchange: FieldValue) -> bytes:
    death: Table = {"exchange": exchange, "queue": FieldValue(b"S", b"traces")}
    other: Table = {"exchange": FieldValue(b"S", b"logs")}
    deaths = FieldValue(b"A", [FieldValue(b"F", other), FieldValue(b"F", death)])
    return message(Properties(headers={"x-death": deaths}))


def test_the_dead_letter_of_a_trace_is_not_traced() -> None:
    assert trace_of(dead_letter(FieldValue(b"S", TRACE_EXCHANGE.encode())), DELIVERY) is None
    assert trace_of(dead_letter(FieldValue(b"S", b"orders")), DELIVERY) is not None


@pytest.mark.parametrize(
    "deaths",
    [
        FieldValue(b"S", TRACE_EXCHANGE.encode()),
        FieldValue(b"A", [FieldValue(b"S", b"no table")]),
        FieldValue(b"A", [FieldValue(b"F", {})]),
    ],
)
def test_a_header_that_only_looks_like_a_death_hides_nothing(deaths: FieldValue) -> None:
    traced = message(Properties(headers={"x-death": deaths}))
    assert properties_in(trace_of(traced, DELIVERY))["headers"].value == {"x-death": deaths}


def test_the_longest_names_fit_into_the_routing_key() -> None:
    published = trace_of(message(exchange=b"x" * 255), PUBLISH)
    assert published is not None
    assert decode_message(published).routing_key == b"publish." + b"x" * 247
    delivered = trace_of(message(), DELIVERY._replace(queue="q" * 255))
    assert delivered is not None
    assert decode_message(delivered).routing_key == b"deliver." + b"q" * 247


def test_a_name_that_is_no_text_keeps_its_octets() -> None:
    trace = trace_of(message(exchange=b"\xff"), DELIVERY._replace(queue="\udcfe"))
    assert trace is not None
    assert decode_message(trace).routing_key == b"deliver.\xfe"
    assert headers_of(trace)["exchange_name"].value == b"\xff"


@pytest.mark.parametrize(
    ("timestamp", "kind"),
    [((1 << 31) - 1, b"I"), (1 << 31, b"l"), ((1 << 63) - 1, b"l")],
)
def test_a_timestamp_has_the_shorter_kind_that_holds_it(timestamp: int, kind: bytes) -> None:
    trace = trace_of(message(Properties(timestamp=timestamp)), PUBLISH)
    assert properties_in(trace) == {"timestamp": FieldValue(kind, timestamp)}


def test_a_timestamp_that_no_signed_number_holds_leaves_the_properties_out() -> None:
    trace = trace_of(message(Properties(timestamp=1 << 63)), PUBLISH)
    assert properties_in(trace) == {}


def test_headers_that_are_long_leave_the_properties_out() -> None:
    fits, too_long = (
        message(Properties(headers={"h": FieldValue(b"S", bytes(size))}, app_id="a"))
        for size in (HEADER_BYTES_MAX - 1024, HEADER_BYTES_MAX)
    )
    assert set(properties_in(trace_of(fits, PUBLISH))) == {"headers", "app_id"}
    trace = trace_of(too_long, PUBLISH)
    assert properties_in(trace) == {}
    assert headers_of(trace)["routed_queues"].value == [FieldValue(b"S", b"q")]
    assert trace is not None
    assert len(trace) < 1024


def test_headers_of_96_kib_are_not_too_long() -> None:
    def trace_with(size: int) -> bytes:
        headers = {"h": FieldValue(b"S", bytes(size))}
        trace = trace_of(message(Properties(headers=headers)), PUBLISH)
        assert trace is not None
        return trace

    room = 96 * 1024 - len(decode_message(trace_with(0)).properties)
    assert set(properties_in(trace_with(room))) == {"headers"}
    assert properties_in(trace_with(room + 1)) == {}


def test_long_lists_of_queues_end() -> None:
    queues = tuple(f"{number:0255}" for number in range(2 * QUEUES_MAX))
    trace = trace_of(message(), Publish(ORIGIN, queues))
    named = headers_of(trace)["routed_queues"].value
    assert named == [FieldValue(b"S", name.encode()) for name in queues[:QUEUES_MAX]]
    assert trace is not None
    assert len(trace) <= HEADER_BYTES_MAX + 1024


def test_headers_with_too_many_values_are_empty() -> None:
    fits, too_many = (
        message(Properties(headers={str(n): FieldValue(b"V", None) for n in range(count)}))
        for count in (HEADER_VALUES_MAX, HEADER_VALUES_MAX + 1)
    )
    repeated = properties_in(trace_of(fits, PUBLISH))["headers"].value
    assert isinstance(repeated, dict)
    assert len(repeated) == HEADER_VALUES_MAX
    assert properties_in(trace_of(too_many, PUBLISH)) == {"headers": FieldValue(b"F", {})}


def test_tables_that_are_too_deep_for_another_leave_the_properties_out() -> None:
    fits = trace_of(message(Properties(headers=nested(TABLE_DEPTH_MAX - 2))), PUBLISH)
    assert set(properties_in(fits)) == {"headers"}
    too_deep = trace_of(message(Properties(headers=nested(TABLE_DEPTH_MAX - 1))), PUBLISH)
    assert properties_in(too_deep) == {}


def test_headers_that_cannot_be_read_are_empty() -> None:
    broken = b"\x20\x00" + b"\0\0\0\3" + b"\1h?"
    assert properties_in(trace_of(message(broken), PUBLISH)) == {"headers": FieldValue(b"F", {})}
