"""Exchanges are declared, compared and deleted."""

from typing import Any

import pytest
from pamqp.base import Frame
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import differs_from_3_10

PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}
NOT_ON_DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"


def declare(client: AmqpClient, exchange: str, kind: str = "direct", **options: Any) -> None:  # noqa: ANN401
    """Declare an exchange."""
    method = Exchange.Declare(exchange=exchange, exchange_type=kind, **options)
    client.call(method, Exchange.DeclareOk)


@pytest.mark.parametrize("exchange", PREDECLARED)
def test_the_predeclared_exchanges_exist_and_are_durable(client: AmqpClient, exchange: str) -> None:
    declare(client, exchange, PREDECLARED[exchange], durable=True)


def test_the_trace_exchange_is_a_topic_that_clients_cannot_publish_to(client: AmqpClient) -> None:
    declare(client, "amq.rabbitmq.trace", "topic", durable=True, internal=True)
    client.publish(b"", "key", "amq.rabbitmq.trace")
    text = "ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'"
    expect_channel_error(client, 403, text, Basic.Publish)


@pytest.mark.parametrize(
    "method",
    [
        Exchange.Declare(exchange="", exchange_type="direct", durable=True),
        Exchange.Declare(exchange="", exchange_type="direct", passive=True),
        Exchange.Delete(exchange=""),
        Exchange.Bind(source="", destination="amq.fanout"),
        Exchange.Bind(source="amq.fanout", destination=""),
        Exchange.Unbind(source="", destination="amq.fanout"),
        Exchange.Unbind(source="amq.fanout", destination=""),
    ],
    ids=lambda method: method.name,
)
def test_nothing_may_be_done_to_the_default_exchange(client: AmqpClient, method: Frame) -> None:
    client.send(method)
    expect_channel_error(client, 403, NOT_ON_DEFAULT, type(method))


@pytest.mark.parametrize("kind", [Queue.Bind, Queue.Unbind])
def test_queues_are_bound_to_the_default_exchange_by_their_names_alone(
    client: AmqpClient, name: str, kind: type[Queue.Bind]
) -> None:
    client.declare(name)
    client.send(kind(queue=name, exchange="", routing_key="key"))
    expect_channel_error(client, 403, NOT_ON_DEFAULT, kind)


def test_the_prefix_amq_is_reserved_for_new_exchanges(client: AmqpClient) -> None:
    client.send(Exchange.Declare(exchange="amq.nonsense", exchange_type="direct"))
    text = "ACCESS_REFUSED - exchange name 'amq.nonsense' contains reserved prefix 'amq.*'"
    expect_channel_error(client, 403, text, Exchange.Declare)


def test_a_reserved_name_may_be_asked_for_passively(client: AmqpClient) -> None:
    client.send(Exchange.Declare(exchange="amq.nonsense", passive=True))
    text = "NOT_FOUND - no exchange 'amq.nonsense' in vhost '/'"
    expect_channel_error(client, 404, text, Exchange.Declare)


@pytest.mark.parametrize("exchange", [*PREDECLARED, "amq.nonsense"])
def test_names_with_the_prefix_amq_cannot_be_deleted(client: AmqpClient, exchange: str) -> None:
    client.send(Exchange.Delete(exchange=exchange))
    text = f"ACCESS_REFUSED - deletion of system exchange '{exchange}' in vhost '/' not allowed"
    expect_channel_error(client, 403, text, Exchange.Delete)


@differs_from_3_10(
    "closes the connection with 503 COMMAND_INVALID - unknown exchange type 'nonsense'"
)
@pytest.mark.parametrize(
    ("kind", "text"),
    [("nonsense", "unknown exchange type 'nonsense'"), ("", "invalid exchange type ''")],
)
@pytest.mark.parametrize("exchange", [None, "amq.direct", "amq.new"])
def test_an_unknown_type_is_a_failed_precondition(
    client: AmqpClient, name: str, exchange: str | None, kind: str, text: str
) -> None:
    client.send(Exchange.Declare(exchange=exchange or name, exchange_type=kind))
    expect_channel_error(client, 406, f"PRECONDITION_FAILED - {text}", Exchange.Declare)


def test_a_missing_exchange_is_not_found(client: AmqpClient, name: str) -> None:
    client.send(Exchange.Declare(exchange=name, passive=True))
    text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    expect_channel_error(client, 404, text, Exchange.Declare)


def test_a_passive_declare_looks_at_the_name_alone(client: AmqpClient, name: str) -> None:
    declare(client, name, "topic", durable=True)
    declare(client, name, "fanout", passive=True, internal=True, arguments={"x": 1})
    declare(client, name, "nonsense", passive=True)


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_an_exchange_may_be_declared_again_the_same(
    client: AmqpClient, name: str, kind: str
) -> None:
    for _ in range(2):
        declare(client, name, kind, durable=True, auto_delete=True, internal=True)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"exchange_type": "fanout"}, "'type' {0}: received 'fanout' but current is 'direct'"),
        ({"durable": True}, "'durable' {0}: received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete' {0}: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' {0}: received 'true' but current is 'false'"),
        (
            {"arguments": {"alternate-exchange": "a"}},
            "'alternate-exchange' {0}: received the value 'a' of type 'longstr' "
            "but current is none",
        ),
        (
            {"exchange_type": "fanout", "durable": True, "arguments": {"alternate-exchange": "a"}},
            "'type' {0}: received 'fanout' but current is 'direct'",
        ),
    ],
    ids=["type", "durable", "auto_delete", "internal", "alternate", "several"],
)
def test_an_exchange_declared_otherwise_is_a_failed_precondition(
    client: AmqpClient, name: str, changed: dict[str, Any], text: str
) -> None:
    declare(client, name)
    client.send(Exchange.Declare(exchange=name, **changed))
    where = f"for exchange '{name}' in vhost '/'"
    text = f"PRECONDITION_FAILED - inequivalent arg {text.format(where)}"
    expect_channel_error(client, 406, text, Exchange.Declare)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"exchange_type": "fanout"}, "'type' {0}: received 'fanout' but current is 'direct'"),
        ({"durable": False}, "'durable' {0}: received 'false' but current is 'true'"),
    ],
    ids=["type", "durable"],
)
def test_the_predeclared_exchanges_are_compared_too(
    client: AmqpClient, changed: dict[str, Any], text: str
) -> None:
    client.send(Exchange.Declare(exchange="amq.direct", **({"durable": True} | changed)))
    where = "for exchange 'amq.direct' in vhost '/'"
    text = f"PRECONDITION_FAILED - inequivalent arg {text.format(where)}"
    expect_channel_error(client, 406, text, Exchange.Declare)


def test_an_alternate_exchange_that_is_left_out_is_another_declaration(
    client: AmqpClient, name: str
) -> None:
    declare(client, name, arguments={"alternate-exchange": "a"})
    client.send(Exchange.Declare(exchange=name))
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '{name}' "
        "in vhost '/': received none but current is the value 'a' of type 'longstr'"
    )
    expect_channel_error(client, 406, text, Exchange.Declare)


def test_unknown_arguments_are_not_compared(client: AmqpClient, name: str) -> None:
    declare(client, name, arguments={"nonsense": 1})
    declare(client, name, arguments={"nonsense": 2, "more": [True]})
    declare(client, name)


def test_a_missing_exchange_may_be_deleted(client: AmqpClient, name: str) -> None:
    client.call(Exchange.Delete(exchange=name), Exchange.DeleteOk)
    client.call(Exchange.Delete(exchange=name, if_unused=True), Exchange.DeleteOk)


def test_an_exchange_in_use_is_kept_if_so_asked(client: AmqpClient, new_name: NewName) -> None:
    source, target, queue = new_name(), new_name(), new_name()
    declare(client, source)
    declare(client, target)
    client.declare(queue)
    client.call(Exchange.Bind(source=source, destination=target), Exchange.BindOk)
    client.call(Queue.Bind(queue=queue, exchange=target), Queue.BindOk)
    for exchange in (source, target):
        client.send(Exchange.Delete(exchange=exchange, if_unused=True))
        text = f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"
        expect_channel_error(client, 406, text, Exchange.Delete)
        client.open_channel()
    client.call(Queue.Unbind(queue=queue, exchange=target), Queue.UnbindOk)
    # What is bound to it does not count, only what it feeds.
    client.call(Exchange.Delete(exchange=target, if_unused=True), Exchange.DeleteOk)
    client.call(Exchange.Delete(exchange=source, if_unused=True), Exchange.DeleteOk)


def test_deleting_an_exchange_deletes_its_bindings(client: AmqpClient, name: str) -> None:
    declare(client, name)
    client.declare(name)
    client.call(Queue.Bind(queue=name, exchange=name, routing_key="k"), Queue.BindOk)
    client.call(Exchange.Delete(exchange=name), Exchange.DeleteOk)
    declare(client, name)
    client.publish(b"", "k", name, mandatory=True)
    client.expect_return()


def test_clients_cannot_publish_to_an_internal_exchange(client: AmqpClient, name: str) -> None:
    declare(client, name, internal=True)
    client.publish(b"", "key", name)
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{name}' in vhost '/'"
    expect_channel_error(client, 403, text, Basic.Publish)


def test_an_internal_exchange_is_fed_by_others(connect: Connect, new_name: NewName) -> None:
    client = connect(confirms=True)
    inner, queue = new_name(), new_name()
    declare(client, inner, "fanout", internal=True)
    client.declare(queue)
    client.call(Queue.Bind(queue=queue, exchange=inner), Queue.BindOk)
    bind = Exchange.Bind(source="amq.direct", destination=inner, routing_key=inner)
    client.call(bind, Exchange.BindOk)
    client.publish(b"", inner, "amq.direct")
    client.expect_confirmed()
    assert client.ready_count(queue) == 1


def test_a_publish_to_a_missing_exchange_is_not_found(client: AmqpClient, name: str) -> None:
    client.publish(b"", "key", name)
    text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    expect_channel_error(client, 404, text, Basic.Publish)


def is_there(client: AmqpClient, exchange: str) -> bool:
    """Tell whether there is such an exchange."""
    client.send(Exchange.Declare(exchange=exchange, passive=True))
    if isinstance(client.receive()[1], Exchange.DeclareOk):
        return True
    client.send_raw(b"\x01\x00\x01\x00\x00\x00\x04\x00\x14\x00\x29\xce")
    client.open_channel()
    return False


@pytest.mark.parametrize("by", ["unbind", "queue.delete"])
def test_an_auto_delete_exchange_is_deleted_with_its_last_binding(
    client: AmqpClient, new_name: NewName, by: str
) -> None:
    exchange, queue = new_name(), new_name()
    declare(client, exchange, auto_delete=True)
    client.declare(queue)
    for key in ("a", "b"):
        bind = Queue.Bind(queue=queue, exchange=exchange, routing_key=key)
        client.call(bind, Queue.BindOk)
    unbind = Queue.Unbind(queue=queue, exchange=exchange, routing_key="a")
    client.call(unbind, Queue.UnbindOk)
    assert is_there(client, exchange)
    if by == "unbind":
        unbind.routing_key = "b"
        client.call(unbind, Queue.UnbindOk)
    else:
        client.call(Queue.Delete(queue=queue), Queue.DeleteOk)
    assert not is_there(client, exchange)


def test_an_auto_delete_exchange_is_deleted_with_its_last_bound_exchange(
    client: AmqpClient, new_name: NewName
) -> None:
    first, second, last = new_name(), new_name(), new_name()
    declare(client, first, auto_delete=True)
    declare(client, second, auto_delete=True)
    declare(client, last)
    client.call(Exchange.Bind(source=first, destination=second), Exchange.BindOk)
    client.call(Exchange.Bind(source=second, destination=last), Exchange.BindOk)
    client.call(Exchange.Delete(exchange=last), Exchange.DeleteOk)
    assert not is_there(client, second)
    assert not is_there(client, first)


def test_an_auto_delete_exchange_stays_when_its_source_is_deleted(
    client: AmqpClient, new_name: NewName
) -> None:
    source, exchange = new_name(), new_name()
    declare(client, source)
    declare(client, exchange, auto_delete=True)
    client.call(Exchange.Bind(source=source, destination=exchange), Exchange.BindOk)
    client.call(Exchange.Delete(exchange=source), Exchange.DeleteOk)
    assert is_there(client, exchange)


def test_an_auto_delete_exchange_that_never_had_a_binding_stays(
    client: AmqpClient, name: str
) -> None:
    declare(client, name, auto_delete=True)
    client.call(Queue.Declare(queue="", exclusive=True), Queue.DeclareOk)
    unbind = Queue.Unbind(queue="", exchange=name, routing_key="never")
    client.call(unbind, Queue.UnbindOk)
    assert is_there(client, name)


def send_named(client: AmqpClient, method: Frame, old: str, new: str) -> None:
    """Send a method with a name that its library does not let through."""
    before, after = (bytes([len(name.encode())]) + name.encode() for name in (old, new))
    payload = method.index.to_bytes(4, "big") + method.marshal()
    client.send_method(payload.replace(before, after))


def test_carriage_returns_and_line_feeds_are_stripped_from_exchange_names(
    client: AmqpClient, name: str
) -> None:
    send_named(client, Exchange.Declare(exchange="NAME"), "NAME", f"\r\n{name[:5]}\n{name[5:]}\r")
    client.expect(Exchange.DeclareOk)
    assert is_there(client, name)
    send_named(client, Exchange.Delete(exchange="NAME"), "NAME", f"{name}\n")
    client.expect(Exchange.DeleteOk)
    assert not is_there(client, name)


def test_carriage_returns_and_line_feeds_are_stripped_from_queue_names(
    client: AmqpClient, name: str
) -> None:
    send_named(client, Queue.Declare(queue="NAME"), "NAME", f"\r\n{name}")
    assert client.expect(Queue.DeclareOk).queue == name
    assert client.ready_count(name) == 0


def test_names_may_have_255_octets(client: AmqpClient, name: str) -> None:
    long = name + "é" * ((255 - len(name)) // 2)
    long += "x" * (255 - len(long.encode()))
    send_named(client, Exchange.Declare(exchange="NAME"), "NAME", long)
    client.expect(Exchange.DeclareOk)
    send_named(client, Queue.Declare(queue="NAME", exclusive=True), "NAME", long)
    assert client.expect(Queue.DeclareOk).queue == long
    send_named(client, Exchange.Delete(exchange="NAME"), "NAME", long)
    client.expect(Exchange.DeleteOk)


def test_methods_with_no_wait_get_no_reply(client: AmqpClient, name: str) -> None:
    client.send(Exchange.Declare(exchange=name, nowait=True))
    bind = Exchange.Bind(source=name, destination="amq.fanout", nowait=True)
    client.send(bind)
    unbind = Exchange.Unbind(source=name, destination="amq.fanout", nowait=True)
    client.send(unbind)
    client.send(Exchange.Delete(exchange=name, nowait=True))
    client.send(Exchange.Declare(exchange=name, passive=True))
    client.expect_channel_close(404)


def test_methods_with_no_wait_get_errors(client: AmqpClient, name: str) -> None:
    client.send(Exchange.Declare(exchange=name, passive=True, nowait=True))
    text = f"NOT_FOUND - no exchange '{name}' in vhost '/'"
    expect_channel_error(client, 404, text, Exchange.Declare)
