"""Octets that break a rule of the protocol get the reply that clients know."""

import pytest
from pamqp import frame
from pamqp.commands import Basic, Channel, Confirm, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.marks import differs, differs_from_3_10
from tests.conformance.queues import leave
from tests.conformance.raw_content import HEADERS_FLAG, publish_raw
from tests.conformance.wrong_octets import (
    CUT_PROPERTIES,
    DEEP_HEADERS,
    FATAL,
    NO_ARGUMENTS,
    PUBLISH_FRAME,
    SOFT,
    TOO_DEEP,
    TOO_LONG,
    UNKNOWN_KINDS,
    UNKNOWN_METHODS,
    UNREADABLE_HEADERS,
    body,
    content_header,
    expect_channel_closed,
    expect_closed,
    longstr,
    nested_array,
    nested_table,
)


@pytest.mark.parametrize("name", FATAL)
def test_a_fatal_mistake_closes_the_connection(client: AmqpClient, name: str) -> None:
    expect_closed(client, FATAL[name])


@differs(rabbitmq="drops the connection", reason="the client learns why")
@pytest.mark.parametrize("name", UNKNOWN_METHODS)
def test_an_unknown_method_is_not_implemented(client: AmqpClient, name: str) -> None:
    expect_closed(client, UNKNOWN_METHODS[name])


@differs(rabbitmq="drops the connection", reason="the client learns why")
@pytest.mark.parametrize("name", UNKNOWN_KINDS)
def test_a_table_with_an_unknown_kind_of_value_is_a_frame_error(
    client: AmqpClient, name: str
) -> None:
    expect_closed(client, UNKNOWN_KINDS[name])


@differs(rabbitmq="takes tables of any depth", reason="everything from outside has a bound")
@pytest.mark.parametrize("name", TOO_DEEP)
def test_a_table_that_is_nested_too_deep_is_a_frame_error(client: AmqpClient, name: str) -> None:
    expect_closed(client, TOO_DEEP[name])


@differs(rabbitmq="says 541 INTERNAL_ERROR", reason="it is the client's mistake, which it learns")
@pytest.mark.parametrize("name", UNREADABLE_HEADERS)
def test_headers_that_nobody_can_decode_are_a_syntax_error(client: AmqpClient, name: str) -> None:
    expect_closed(client, UNREADABLE_HEADERS[name])


@differs(rabbitmq="takes headers of any depth", reason="everything from outside has a bound")
@pytest.mark.parametrize("name", DEEP_HEADERS)
def test_headers_that_are_nested_too_deep_are_a_syntax_error(client: AmqpClient, name: str) -> None:
    expect_closed(client, DEEP_HEADERS[name])


@pytest.mark.parametrize("table", [nested_table(63), nested_array(63)], ids=["tables", "arrays"])
def test_headers_may_nest_deep(client: AmqpClient, table: bytes) -> None:
    client.declare("q", exclusive=True)
    publish_raw(client, "q", HEADERS_FLAG, longstr(table), b"deep")
    message = client.get("q")
    assert message is not None
    assert message.body == b"deep"


@differs(rabbitmq="says 541 INTERNAL_ERROR", reason="it is the client's mistake, which it learns")
@pytest.mark.parametrize("name", CUT_PROPERTIES)
def test_properties_that_break_their_grammar_are_a_syntax_error(
    client: AmqpClient, name: str
) -> None:
    expect_closed(client, CUT_PROPERTIES[name])


@differs(rabbitmq="says 541 INTERNAL_ERROR", reason="it is the client's mistake, which it learns")
@pytest.mark.parametrize("name", NO_ARGUMENTS)
def test_a_method_of_the_connection_without_its_arguments_is_a_frame_error(
    client: AmqpClient, name: str
) -> None:
    expect_closed(client, NO_ARGUMENTS[name])


@differs_from_3_10("takes the octets and waits for ever for the end of the message")
@pytest.mark.parametrize("name", TOO_LONG)
def test_more_body_than_was_announced_is_a_frame_error(client: AmqpClient, name: str) -> None:
    expect_closed(client, TOO_LONG[name])


@pytest.mark.parametrize("name", SOFT)
def test_a_mistake_on_a_channel_closes_that_channel_only(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    expect_channel_closed(client, SOFT[name])
    # The broker ignores what it gets on the channel until close-ok.
    client.send_raw(frame.marshal(Queue.Declare(queue="ignored"), 1))
    client.send_raw(PUBLISH_FRAME + content_header(60, 1) + body(b"a"))
    client.send(Channel.CloseOk(), 1)
    client.open_channel(1)
    client.call(Confirm.Select(), Confirm.SelectOk, 2)
    client.publish(b"on the other channel", "nobody", channel=2)
    client.expect(Basic.Ack, 2)
    leave(client)
