"""`x-stream-offset`: where a consumer of a stream begins."""

import time

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.consuming import prefetch
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.queues import expect_refused
from tests.conformance.streams import (
    FIRST,
    declare_stream,
    expect_offsets,
    fill_stream,
    fill_stream_at_once,
    read_from,
    send_consume,
    whole_seconds,
)
from tests.conformance.typed_fields import Typed

NEXT = Typed("S", "next")
LAST = Typed("S", "last")


@pytest.fixture
def stream(client: AmqpClient, name: str) -> str:
    """Declare a stream with five messages, each a chunk of its own in RabbitMQ."""
    declare_stream(client, name)
    fill_stream(client, name, 5)
    return name


def expect_from(
    client: AmqpClient, connect: Connect, stream: str, start: Typed | None, first: int
) -> None:
    """Return when a consumer that begins at `start` had all of the stream from `first` on.

    One message is published while it reads, the offset 5.
    """
    read_from(client, stream, start)
    fill_stream(connect(), stream, 1, first=5)
    assert expect_offsets(client, 6 - first) == list(range(first, 6))


def test_an_offset_is_a_signed_number_of_64_bits(client: AmqpClient, stream: str) -> None:
    prefetch(client, 1)
    send_consume(client, stream, {"x-stream-offset": FIRST})
    octets = b""
    while not octets.endswith(b"0\xce"):
        octets += client.receive_raw()
    assert b"\x0fx-stream-offsetl" + bytes(8) in octets


@pytest.mark.parametrize(
    ("start", "first"),
    [(None, 5), (NEXT, 5), (FIRST, 0), (LAST, 4)],
    ids=["nothing", "next", "first", "last"],
)
def test_a_place_may_have_a_name(
    client: AmqpClient, connect: Connect, stream: str, start: Typed | None, first: int
) -> None:
    expect_from(client, connect, stream, start, first)


@pytest.mark.parametrize("start", [None, NEXT, FIRST, LAST, Typed("l", 0), Typed("S", "1h")])
def test_in_an_empty_stream_every_place_is_the_same(
    client: AmqpClient, connect: Connect, name: str, start: Typed | None
) -> None:
    declare_stream(client, name)
    read_from(client, name, start)
    fill_stream(connect(), name, 2)
    assert expect_offsets(client, 2) == [0, 1]


@differs(rabbitmq="`last` is the last chunk, here all of them", reason="it is exact")
def test_the_last_message_is_the_last_of_those_published_together(
    connect: Connect, new_name: NewName
) -> None:
    for _ in range(8):  # RabbitMQ makes a chunk of what waits: now and then that is one message
        client, reader, name = connect(), connect(), new_name()
        declare_stream(client, name)
        fill_stream_at_once(client, name, 50)
        read_from(reader, name, FIRST)
        expect_offsets(reader, 50)  # all of it can be read
        read_from(client, name, LAST)
        assert expect_offsets(client, 1) == [49]


@pytest.mark.parametrize("kind", "bBsuIil")
def test_an_offset_may_have_any_width(
    client: AmqpClient, connect: Connect, stream: str, kind: str
) -> None:
    expect_from(client, connect, stream, Typed(kind, 3), 3)


@pytest.mark.parametrize("offset", [0, 4, 5])
def test_an_offset_may_be_any_within_the_stream(
    client: AmqpClient, connect: Connect, stream: str, offset: int
) -> None:
    expect_from(client, connect, stream, Typed("l", offset), offset)


def test_an_offset_behind_the_end_is_waited_for(
    client: AmqpClient, connect: Connect, stream: str
) -> None:
    read_from(client, stream, Typed("l", 7))
    fill_stream(connect(), stream, 4, first=5)
    assert expect_offsets(client, 2) == [7, 8]


def test_an_offset_far_behind_the_end_is_waited_for(
    client: AmqpClient, connect: Connect, stream: str
) -> None:
    for offset in (100, 2**62):
        read_from(client, stream, Typed("l", offset))
    fill_stream(connect(), stream, 1, first=5)
    prefetch(client, 5)
    read_from(client, stream, LAST)
    assert expect_offsets(client, 1) == [5]


@pytest.mark.parametrize("number", [-1, -3, -5, -6, -(2**63)])
def test_a_negative_number_is_all_of_the_stream(
    client: AmqpClient, connect: Connect, stream: str, number: int
) -> None:
    expect_from(client, connect, stream, Typed("l", number), 0)


# Time


def test_a_time_is_that_of_the_first_message_then_or_later(
    client: AmqpClient, connect: Connect, name: str
) -> None:
    declare_stream(client, name)
    fill_stream(client, name, 2)
    # A whole second lies between the messages before it and those after it.
    between = int(time.time()) + 1
    time.sleep(between + 0.05 - time.time())
    fill_stream(client, name, 3, first=2)
    expect_from(client, connect, name, whole_seconds(between), 2)


@pytest.mark.parametrize(
    ("start", "first"),
    [
        (Typed("T", 0), 0),
        (Typed("T", 2**40), 5),
        (Typed("S", "30s"), 0),
        (Typed("S", "10m"), 0),
        (Typed("S", "1h"), 0),
        (Typed("S", "7D"), 0),
        (Typed("S", "1M"), 0),
        (Typed("S", "1Y"), 0),
        (Typed("S", "99999Y"), 0),
    ],
)
def test_a_time_may_be_long_ago_or_to_come(
    client: AmqpClient, connect: Connect, stream: str, start: Typed, first: int
) -> None:
    expect_from(client, connect, stream, start, first)


def test_an_age_is_counted_back_from_now(connect: Connect, new_name: NewName) -> None:
    client, age_seconds = connect(), 1
    while True:
        stream, reader = new_name(), connect()
        declare_stream(client, stream)
        fill_stream(client, stream, 3)
        time.sleep(age_seconds + 0.2)
        began = time.monotonic()
        fill_stream(client, stream, 2, first=3)
        read_from(reader, stream, Typed("S", f"{age_seconds}s"))
        if time.monotonic() - began < age_seconds:
            break
        # The machine stood still until all of the messages were older than that.
        age_seconds *= 2
    fill_stream(client, stream, 1, first=5)
    assert expect_offsets(reader, 3) == [3, 4, 5]


# What cannot be understood


@pytest.mark.parametrize("value", ["0s", "1", "5", "1x", "1 h", "1h30m", "1.5h"])
def test_another_text_is_refused(client: AmqpClient, stream: str, value: str) -> None:
    expect_offset_refused(client, stream, Typed("S", value))


@differs_from_3_10("answers 541 and closes the connection")
@pytest.mark.parametrize("value", ["", "FIRST", "First", "foo", "-1h"])
def test_a_text_that_begins_with_no_digit_is_refused_with_the_same_text(
    client: AmqpClient, stream: str, value: str
) -> None:
    expect_offset_refused(client, stream, Typed("S", value))


@differs(rabbitmq="answers 541 and closes the connection", reason="the client made the error")
@pytest.mark.parametrize(
    ("value", "word"),
    [
        (Typed("t", True), "bool"),
        (Typed("d", 5.0), "double"),
        (Typed("f", 5.0), "float"),
        (Typed("V", None), "void"),
        (Typed("A", []), "array"),
        (Typed("F", {}), "table"),
    ],
)
def test_a_value_of_another_type_is_refused(
    client: AmqpClient, stream: str, value: Typed, word: str
) -> None:
    prefetch(client, 5)
    send_consume(client, stream, {"x-stream-offset": value})
    said = f"invalid arg 'x-stream-offset' for queue '{stream}' in vhost '/': "
    expect_refused(client, f"{said}{{unacceptable_type,{word}}}", Basic.Consume)


def expect_offset_refused(client: AmqpClient, stream: str, value: Typed) -> None:
    prefetch(client, 5)
    send_consume(client, stream, {"x-stream-offset": value})
    shown = f'<<"{value.value}">>' if value.value else "<<>>"
    expect_refused(
        client,
        f"invalid arg 'x-stream-offset' for queue '{stream}' in vhost '/': "
        f"{{invalid_stream_offset_arg,{{longstr,{shown}}}}}",
        Basic.Consume,
    )
