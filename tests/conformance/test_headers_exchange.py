"""The headers exchange compares the headers of a message field by field."""

import struct
from typing import Any

import pytest
from pamqp.commands import Exchange, Queue

from tests.amqp_client import AmqpClient, frame_octets
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error
from tests.conformance.routing import bind_exchange, bind_queue, declare_exchange, drain, reached

INT8, INT16, INT32, INT64 = b"b\x05", b"s\x00\x05", b"I\x00\x00\x00\x05", b"l" + bytes(7) + b"\x05"
UINT8, UINT16, UINT32 = b"B\x05", b"u\x00\x05", b"i\x00\x00\x00\x05"
FLOAT, DOUBLE = b"f" + struct.pack(">f", 5), b"d" + struct.pack(">d", 5)
TIME = b"T" + struct.pack(">Q", 5)
DECIMAL = b"D\x00\x00\x00\x00\x05"
TEXT, OCTETS = b"S\x00\x00\x00\x015", b"x\x00\x00\x00\x015"
TRUE, FALSE, VOID = b"t\x01", b"t\x00", b"V"


def array(*values: bytes) -> bytes:
    """Return an array of values."""
    octets = b"".join(values)
    return b"A" + struct.pack(">I", len(octets)) + octets


def fields(**values: bytes) -> bytes:
    """Return a table of values, with its length."""
    octets = b"".join(bytes([len(key)]) + key.encode() + value for key, value in values.items())
    return struct.pack(">I", len(octets)) + octets


@pytest.fixture
def client(connect: Connect) -> AmqpClient:
    """Open a connection whose channel 1 has confirms."""
    return connect(confirms=True)


@pytest.fixture
def bound(client: AmqpClient, new_name: NewName) -> "Bound":
    """Declare a headers exchange and a queue."""
    return Bound(client, new_name(), new_name())


class Bound:
    """A headers exchange with one queue, to be bound in ever other ways."""

    def __init__(self, client: AmqpClient, exchange: str, queue: str) -> None:
        self.client = client
        self.exchange = exchange
        self.queue = queue
        declare_exchange(client, exchange, "headers")
        client.declare(queue)

    def bind(self, arguments: dict[str, Any]) -> None:
        """Bind the queue by a table of pamqp's."""
        bind_queue(self.client, self.queue, self.exchange, "", arguments)

    def bind_octets(self, table: bytes) -> None:
        """Bind the queue by a table as it is on the wire."""
        method = Queue.Bind(queue=self.queue, exchange=self.exchange)
        payload = method.index.to_bytes(4, "big") + method.marshal()
        self.client.send_method(payload[:-4] + table)
        self.client.expect(Queue.BindOk)

    def takes(self, headers: dict[str, Any] | None) -> bool:
        """Tell whether a message with these headers reaches the queue."""
        got = reached(self.client, [self.queue], self.exchange, "any key", headers)
        return got == [self.queue]

    def takes_octets(self, table: bytes) -> bool:
        """Tell whether a message with headers as on the wire reaches the queue."""
        names = bytes(2) + bytes([len(self.exchange)]) + self.exchange.encode() + bytes(2)
        self.client.send_method(b"\x00\x3c\x00\x28" + names)
        head = struct.pack(">HHQH", 60, 0, 0, 0x2000) + table
        self.client.send_raw(frame_octets(2, 1, head))
        self.client.published[1] += 1
        self.client.expect_confirmed()
        return drain(self.client, [self.queue]) == [self.queue]


def test_without_x_match_all_fields_must_match(bound: Bound) -> None:
    bound.bind({"a": "1", "b": "2"})
    assert bound.takes({"a": "1", "b": "2"})
    assert bound.takes({"a": "1", "b": "2", "c": "3"})
    assert not bound.takes({"a": "1"})
    assert not bound.takes({"a": "1", "b": "3"})
    assert not bound.takes({"A": "1", "b": "2"})
    assert not bound.takes({})
    assert not bound.takes(None)


def test_with_all_every_field_must_match(bound: Bound) -> None:
    bound.bind({"x-match": "all", "a": "1", "b": "2"})
    assert bound.takes({"a": "1", "b": "2", "c": "3"})
    assert not bound.takes({"b": "2", "c": "3"})


def test_with_any_one_field_must_match(bound: Bound) -> None:
    bound.bind({"x-match": "any", "a": "1", "b": "2"})
    assert bound.takes({"a": "1"})
    assert bound.takes({"a": "other", "b": "2"})
    assert not bound.takes({"a": "other", "c": "3"})
    assert not bound.takes({})


@pytest.mark.parametrize(
    ("kind", "is_taken"),
    [("all", True), ("any", False), ("all-with-x", True), ("any-with-x", False)],
)
def test_no_fields_at_all(bound: Bound, kind: str, *, is_taken: bool) -> None:
    bound.bind({"x-match": kind})
    assert bound.takes({"a": "1"}) is is_taken
    assert bound.takes(None) is is_taken


def test_no_arguments_at_all_take_everything(bound: Bound) -> None:
    bound.bind({})
    assert bound.takes({"a": "1"})
    assert bound.takes(None)


@pytest.mark.parametrize("kind", ["all", "all-with-x"])
def test_with_all_a_void_field_matches_any_value(bound: Bound, kind: str) -> None:
    bound.bind({"x-match": kind, "a": None, "b": "2"})
    assert bound.takes({"a": "anything", "b": "2"})
    assert bound.takes({"a": None, "b": "2"})
    assert bound.takes({"a": [1], "b": "2"})
    assert not bound.takes({"b": "2"})


@pytest.mark.parametrize("kind", ["any", "any-with-x"])
def test_with_any_a_void_field_matches_any_value(bound: Bound, kind: str) -> None:
    bound.bind({"x-match": kind, "a": None, "b": "2"})
    assert bound.takes({"a": 17})
    assert not bound.takes({"b": "3", "c": None})


def test_a_void_header_equals_no_value(bound: Bound) -> None:
    bound.bind({"a": "1"})
    assert not bound.takes({"a": None})


def test_fields_that_begin_with_x_are_skipped_by_all(bound: Bound) -> None:
    bound.bind({"x-match": "all", "x-kind": "1", "a": "1"})
    assert bound.takes({"a": "1"})
    assert bound.takes({"a": "1", "x-kind": "other"})
    assert not bound.takes({"x-kind": "1"})


def test_fields_that_begin_with_x_are_skipped_by_any(bound: Bound) -> None:
    bound.bind({"x-match": "any", "x-kind": "1", "a": "1"})
    assert bound.takes({"a": "1"})
    assert not bound.takes({"x-kind": "1"})


def test_fields_that_begin_with_x_count_where_asked(bound: Bound, new_name: NewName) -> None:
    bound.bind({"x-match": "all-with-x", "x-kind": "1", "a": "1"})
    assert bound.takes({"x-kind": "1", "a": "1"})
    assert not bound.takes({"a": "1"})
    assert not bound.takes({"x-kind": "1"})
    other = Bound(bound.client, new_name(), new_name())
    other.bind({"x-match": "any-with-x", "x-kind": "1", "a": "1"})
    assert other.takes({"x-kind": "1"})
    assert other.takes({"a": "1"})
    assert not other.takes({"x-kind": "2"})


def test_the_kind_of_match_is_never_compared_itself(bound: Bound) -> None:
    bound.bind({"x-match": "all-with-x", "a": "1"})
    assert bound.takes({"a": "1"})
    assert bound.takes({"a": "1", "x-match": "other"})


@pytest.mark.parametrize("value", ["foo", "", "ALL", "all with x"])
def test_an_unknown_kind_of_match_is_refused(bound: Bound, value: str) -> None:
    client = bound.client
    bind = Queue.Bind(queue=bound.queue, exchange=bound.exchange, arguments={"x-match": value})
    client.send(bind)
    shown = f'<<"{value}">>' if value else "<<>>"
    text = (
        f"PRECONDITION_FAILED - Invalid x-match field value {shown}; "
        "expected all, any, all-with-x, or any-with-x"
    )
    expect_channel_error(client, 406, text, Queue.Bind)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1, "byte (value 1)"), (True, "bool (value true)"), (None, "void (value undefined)")],
    ids=["int", "bool", "void"],
)
def test_a_kind_of_match_that_is_no_string_is_refused(
    bound: Bound, value: object, shown: str
) -> None:
    client = bound.client
    arguments: Any = {"x-match": value}
    client.send(Queue.Bind(queue=bound.queue, exchange=bound.exchange, arguments=arguments))
    text = f"PRECONDITION_FAILED - Invalid x-match field type {shown}; expected longstr"
    expect_channel_error(client, 406, text, Queue.Bind)


def test_the_x_match_of_an_exchange_binding_is_checked(bound: Bound) -> None:
    arguments: Any = {"x-match": "foo"}
    bind = Exchange.Bind(source=bound.exchange, destination="amq.fanout", arguments=arguments)
    bound.client.send(bind)
    text = (
        'PRECONDITION_FAILED - Invalid x-match field value <<"foo">>; '
        "expected all, any, all-with-x, or any-with-x"
    )
    expect_channel_error(bound.client, 406, text, Exchange.Bind)


def test_exchanges_of_other_types_take_any_arguments(client: AmqpClient, name: str) -> None:
    client.declare(name)
    bind_queue(client, name, "amq.topic", name, {"x-match": "foo"})


NUMBERS = {
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "uint8": UINT8,
    "uint16": UINT16,
    "uint32": UINT32,
    "float": FLOAT,
    "double": DOUBLE,
    "time": TIME,
}


@pytest.mark.parametrize("bound_as", NUMBERS)
def test_numbers_are_equal_whatever_their_type(bound: Bound, bound_as: str) -> None:
    bound.bind_octets(fields(n=NUMBERS[bound_as]))
    taken = {name for name, octets in NUMBERS.items() if bound.takes_octets(fields(n=octets))}
    assert taken == set(NUMBERS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TEXT, INT8),
        (INT8, b"b\x06"),
        (DECIMAL, INT8),
        (TRUE, b"b\x01"),
        (TRUE, b"S\x00\x00\x00\x04true"),
        (TRUE, FALSE),
        (FALSE, b"b\x00"),
        (DOUBLE, b"d" + struct.pack(">d", 5.5)),
        (array(INT8), INT8),
        (array(INT8), array(INT8, INT8)),
        (array(INT8, TEXT), array(TEXT, INT8)),
        (b"F" + fields(a=INT8), array(INT8)),
        (b"F" + fields(a=INT8), b"F" + fields(b=INT8)),
        (array(INT8), array(INT16)),
        (b"F" + fields(a=INT8), b"F" + fields(a=INT32)),
        (b"F" + fields(a=INT8, b=INT8), b"F" + fields(b=INT8, a=INT8)),
        (DECIMAL, b"D\x01\x00\x00\x00\x32"),
    ],
)
def test_values_that_differ(bound: Bound, one: bytes, other: bytes) -> None:
    bound.bind_octets(fields(v=one))
    assert bound.takes_octets(fields(v=one))
    assert not bound.takes_octets(fields(v=other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TEXT, OCTETS),
        (DECIMAL, DECIMAL),
        (array(INT8, TEXT), array(INT8, TEXT)),
        (b"F" + fields(a=INT8, b=TEXT), b"F" + fields(a=INT8, b=TEXT)),
        (array(), array()),
        (b"F" + fields(), array()),
        (b"d" + struct.pack(">d", 0.5), b"f" + struct.pack(">f", 0.5)),
    ],
)
def test_values_that_are_equal(bound: Bound, one: bytes, other: bytes) -> None:
    bound.bind_octets(fields(v=one))
    assert bound.takes_octets(fields(v=other))


def test_many_fields_in_any_order(bound: Bound) -> None:
    bound.bind_octets(fields(c=INT8, a=TEXT, b=TRUE))
    assert bound.takes_octets(fields(z=VOID, b=TRUE, c=INT8, a=TEXT, aa=TRUE))
    assert not bound.takes_octets(fields(b=TRUE, c=INT8, aa=TEXT))


def test_the_routing_key_has_no_effect(bound: Bound) -> None:
    bind_queue(bound.client, bound.queue, bound.exchange, "some key", {"a": "1"})
    assert bound.takes({"a": "1"})


def test_a_headers_exchange_behind_another_exchange(bound: Bound, name: str) -> None:
    client = bound.client
    declare_exchange(client, name, "fanout")
    bound.bind({"a": "1"})
    bind_exchange(client, bound.exchange, name)
    assert reached(client, [bound.queue], name, "", {"a": "1"}) == [bound.queue]
    assert reached(client, [bound.queue], name, "", {"a": "2"}) == []
