"""Delayed exchanges on a real server: when messages come, what survives, and what is refused."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient, connect
from tests.servers import RunningServer

DELAYED = "x-delayed-message"
SOON_MS, LATER_MS, NEVER_MS = 300, 900, 3_600_000


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


def declare(
    client: AmqpClient, kind: str = "direct", name: str = "x", *, durable: bool = True
) -> None:
    arguments: Any = {"x-delayed-type": kind}
    client.call(
        Exchange.Declare(0, name, DELAYED, False, durable, False, False, False, arguments),
        Exchange.DeclareOk,
    )


def bind(client: AmqpClient, queue: str, key: str = "key", name: str = "x") -> None:
    client.declare(queue)
    client.call(Queue.Bind(0, queue, name, key), Queue.BindOk)


def delayed(delay_ms: Any, **headers: Any) -> Basic.Properties:  # noqa: ANN401
    return Basic.Properties(headers={"x-delay": delay_ms, **headers}, delivery_mode=2)


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    """A delayed direct exchange `x` with the queue `q`, and confirms."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        declare(client)
        bind(client, "q")
        yield client


def test_a_message_comes_when_its_time_has_come_and_not_sooner(client: AmqpClient) -> None:
    begun = time.monotonic()
    client.publish(b"later", "key", "x", properties=delayed(SOON_MS, a="kept"))
    client.expect_confirmed()
    client.consume("q", no_ack=True)

    message = client.expect_delivery()

    assert time.monotonic() - begun >= SOON_MS / 1000
    assert message.body == b"later"
    assert message.properties.headers == {"x-delay": -SOON_MS, "a": "kept"}
    assert isinstance(message.method, Basic.Deliver)
    assert (message.method.exchange, message.method.routing_key) == ("x", "key")
    assert not message.redelivered


def test_messages_come_in_the_order_of_their_times(client: AmqpClient) -> None:
    client.consume("q", no_ack=True)
    method = Basic.Publish(0, "x", "key")
    kinds = ((b"3", LATER_MS), (b"2", SOON_MS), (b"1", 0))
    # In one write: they come at the same time.
    client.send_raw(b"".join(client.publish_octets(method, b, delayed(ms)) for b, ms in kinds))

    bodies: list[bytes] = []
    while len(bodies) < 3:
        _, value = client.receive()
        if isinstance(value, Basic.Deliver):
            bodies.append(client._message(value, 1).body)
    assert bodies == [b"1", b"2", b"3"]


@pytest.mark.parametrize("delay_ms", [0, -5, None, "soon"])
def test_without_a_delay_a_message_goes_at_once_and_unchanged(
    client: AmqpClient, delay_ms: object
) -> None:
    client.publish(b"now", "key", "x", properties=delayed(delay_ms))
    client.publish(b"no headers", "key", "x")
    client.expect_confirmed()

    message = client.get("q")
    assert message is not None
    assert message.properties.headers == {"x-delay": delay_ms}
    assert client.ready_count("q") == 1


def test_a_delayed_message_is_not_returned_and_an_immediate_one_is(client: AmqpClient) -> None:
    client.publish(b"kept", "nobody", "x", properties=delayed(SOON_MS), mandatory=True)
    client.expect_confirmed()
    client.publish(b"returned", "nobody", "x", mandatory=True)

    assert client.expect_return().body == b"returned"
    client.expect_confirmed()


def test_bindings_count_when_the_message_goes_and_not_when_it_came(client: AmqpClient) -> None:
    delay_ms = SOON_MS
    while True:
        begun = time.monotonic()
        client.publish(b"x", "late", "x", properties=delayed(delay_ms))
        client.expect_confirmed()
        bind(client, "bound meanwhile", "late")
        if time.monotonic() - begun < delay_ms / 1000:
            break
        # The machine stood still, and the message may have gone nowhere.
        client.call(Queue.Delete(queue="bound meanwhile"), Queue.DeleteOk)
        delay_ms *= 2
    client.consume("bound meanwhile", no_ack=True)

    assert client.expect_delivery().body == b"x"


def test_copies_go_too_and_bcc_is_gone_then(client: AmqpClient) -> None:
    for queue in ("cc", "bcc"):
        bind(client, queue, queue)
    client.publish(b"x", "key", "x", properties=delayed(SOON_MS, CC=["cc"], BCC=["bcc"]))
    client.expect_confirmed()

    for queue in ("q", "cc", "bcc"):
        client.consume(queue, no_ack=True)
        assert client.expect_delivery().properties.headers == {"CC": ["cc"], "x-delay": -SOON_MS}


def test_an_exchange_behind_another_keeps_messages_as_well_and_only_once(
    client: AmqpClient,
) -> None:
    declare(client, "fanout", "second")
    client.call(Exchange.Bind(0, "second", "amq.fanout"), Exchange.BindOk)
    client.call(Exchange.Bind(0, "x", "second", "key"), Exchange.BindOk)
    client.publish(b"x", "key", "amq.fanout", properties=delayed(SOON_MS))
    client.expect_confirmed()
    client.consume("q", no_ack=True)

    assert client.expect_delivery().properties.headers == {"x-delay": -SOON_MS}


def test_the_time_to_live_begins_when_the_message_is_let_go(client: AmqpClient) -> None:
    properties = Basic.Properties(headers={"x-delay": LATER_MS}, expiration="1", delivery_mode=2)
    client.declare("dead")
    client.declare(
        "short",
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    )
    client.call(Queue.Bind(0, "short", "x", "short"), Queue.BindOk)
    begun = time.monotonic()
    client.publish(b"x", "short", "x", properties=properties)
    client.expect_confirmed()
    client.consume("dead", no_ack=True)

    assert client.expect_delivery().body == b"x"
    assert time.monotonic() - begun >= LATER_MS / 1000


def test_messages_of_a_transient_exchange_are_kept_too(client: AmqpClient) -> None:
    declare(client, "fanout", "transient", durable=False)
    bind(client, "r", "", "transient")
    client.publish(b"x", "", "transient", properties=delayed(SOON_MS))
    client.expect_confirmed()
    client.consume("r", no_ack=True)

    assert client.expect_delivery().body == b"x"


def test_the_last_binding_takes_an_auto_delete_exchange_and_what_it_keeps(
    client: AmqpClient,
) -> None:
    arguments: Any = {"x-delayed-type": "fanout"}
    for _ in range(2):
        client.call(
            Exchange.Declare(0, "auto", DELAYED, False, True, True, False, False, arguments),
            Exchange.DeclareOk,
        )
        bind(client, "r", "", "auto")
        client.publish(b"x", "", "auto", properties=delayed(NEVER_MS))
        client.expect_confirmed()
        client.call(Queue.Unbind(0, "r", "auto", ""), Queue.UnbindOk)


def test_nobody_sees_the_queue_in_which_messages_are_kept(client: AmqpClient) -> None:
    client.publish(b"x", "key", "x", properties=delayed(NEVER_MS))
    client.expect_confirmed()
    client.send(Queue.Declare(queue="amq.delayed", passive=True))

    assert client.expect_channel_close(404).method_id == 10


@pytest.mark.parametrize("arguments", [None, {"x-delayed-type": "nothing"}, {"x-delayed-type": 1}])
def test_it_must_say_how_it_routes(client: AmqpClient, arguments: Any) -> None:  # noqa: ANN401
    client.send(Exchange.Declare(exchange="y", exchange_type=DELAYED, arguments=arguments))

    close = client.expect_channel_close(406)

    assert close.reply_text == (
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    )
    assert (close.class_id, close.method_id) == (40, 10)


def test_declared_again_it_must_route_in_the_same_way(client: AmqpClient) -> None:
    declare(client)
    arguments: Any = {"x-delayed-type": "topic"}
    client.send(Exchange.Declare(0, "x", DELAYED, False, True, arguments=arguments))

    close = client.expect_channel_close(406)

    assert close.reply_text == (
        "PRECONDITION_FAILED - inequivalent arg 'x-delayed-type' for exchange 'x' in vhost '/': "
        "received 'topic' but current is 'direct'"
    )
    assert (close.class_id, close.method_id) == (40, 10)
