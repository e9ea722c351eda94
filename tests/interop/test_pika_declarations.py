"""pika: queues, exchanges and bindings are made, checked and deleted as RabbitMQ does it."""

from collections.abc import Callable
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.interop.conftest import Connect

pytestmark = pytest.mark.interop

Action = Callable[[BlockingChannel, str], object]
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '/'. "
    "It could be originally declared on another connection or the exclusive property value does "
    "not match that of the original declaration."
)


def refusal(action: Callable[[], object]) -> tuple[int, str]:
    """Return code and text of the channel.close that an action is answered with."""
    with pytest.raises(ChannelClosedByBroker) as caught:
        action()
    return caught.value.reply_code, caught.value.reply_text


def declared(channel: BlockingChannel, queue: str) -> tuple[int, int]:
    """Return how many ready messages and consumers a queue has."""
    method = channel.queue_declare(queue, passive=True).method
    assert method.queue == queue
    return method.message_count, method.consumer_count


def test_a_queue_declared_twice_alike_is_the_same_queue(
    channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, durable=True, arguments={"x-ours": "first"})
    channel.basic_publish("", name, b"kept")
    again = channel.queue_declare(name, durable=True, arguments={"x-ours": "second"}).method
    assert (again.queue, again.message_count, again.consumer_count) == (name, 1, 0)


def test_a_queue_without_a_name_gets_one_and_is_the_last_declared(
    channel: BlockingChannel, connect: Connect
) -> None:
    made = channel.queue_declare("", exclusive=True).method.queue
    assert made.startswith("amq.gen-")
    assert channel.queue_declare("", exclusive=True).method.queue != made
    channel.queue_declare(made, passive=True)
    # An empty name now means that queue, also in a binding, also as its key.
    channel.queue_bind("", "amq.direct")
    channel.basic_publish("amq.direct", made, b"by name")
    assert channel.basic_get("", auto_ack=True)[2] == b"by name"
    other = connect().channel()
    assert refusal(lambda: other.basic_get("")) == (
        404,
        "NOT_FOUND - no previously declared queue",
    )


def test_counts_of_a_declared_queue_are_ready_messages_and_consumers(
    channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name)
    for _ in range(3):
        channel.basic_publish("", name, b"")
    method, _, _ = channel.basic_get(name)
    assert declared(channel, name) == (2, 0)
    channel.basic_ack(method.delivery_tag)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(name, lambda *_: None)
    assert declared(channel, name) == (1, 1)


REFUSED: dict[str, tuple[Action, int, str]] = {
    "queue_missing": (
        lambda channel, name: channel.queue_declare(name + "?", passive=True),
        404,
        "NOT_FOUND - no queue '{name}?' in vhost '/'",
    ),
    "queue_without_name": (
        lambda channel, _: channel.queue_declare("", passive=True),
        404,
        "NOT_FOUND - no queue '' in vhost '/'",
    ),
    "exchange_missing": (
        lambda channel, name: channel.exchange_declare(name + "?", passive=True),
        404,
        "NOT_FOUND - no exchange '{name}?' in vhost '/'",
    ),
    "consume_missing": (
        lambda channel, name: channel.basic_consume(name + "?", lambda *_: None),
        404,
        "NOT_FOUND - no queue '{name}?' in vhost '/'",
    ),
    "get_missing": (
        lambda channel, name: channel.basic_get(name + "?"),
        404,
        "NOT_FOUND - no queue '{name}?' in vhost '/'",
    ),
    "purge_missing": (
        lambda channel, name: channel.queue_purge(name + "?"),
        404,
        "NOT_FOUND - no queue '{name}?' in vhost '/'",
    ),
    "bind_to_missing_exchange": (
        lambda channel, name: channel.queue_bind(name, name + "?", "k"),
        404,
        "NOT_FOUND - no exchange '{name}?' in vhost '/'",
    ),
    "bind_missing_queue": (
        lambda channel, name: channel.queue_bind(name + "?", "amq.direct", "k"),
        404,
        "NOT_FOUND - no queue '{name}?' in vhost '/'",
    ),
    "queue_durable": (
        lambda channel, name: channel.queue_declare(name, durable=False),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{name}' in vhost '/': "
        "received 'false' but current is 'true'",
    ),
    "queue_auto_delete": (
        lambda channel, name: channel.queue_declare(name, durable=True, auto_delete=True),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'auto_delete' for queue '{name}' in vhost '/': "
        "received 'true' but current is 'false'",
    ),
    "queue_exclusive": (
        lambda channel, name: channel.queue_declare(name, durable=True, exclusive=True),
        405,
        LOCKED,
    ),
    "queue_argument": (
        lambda channel, name: channel.queue_declare(
            name, durable=True, arguments={"x-max-length": 5}
        ),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{name}' in vhost '/': "
        "received the value '5' of type 'signedint' but current is none",
    ),
    "exchange_type": (
        lambda channel, name: channel.exchange_declare(name, "fanout", durable=True),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{name}' in vhost '/': "
        "received 'fanout' but current is 'direct'",
    ),
    "exchange_durable": (
        lambda channel, name: channel.exchange_declare(name, "direct"),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange '{name}' in vhost '/': "
        "received 'false' but current is 'true'",
    ),
    "exchange_internal": (
        lambda channel, name: channel.exchange_declare(name, "direct", durable=True, internal=True),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'internal' for exchange '{name}' in vhost '/': "
        "received 'true' but current is 'false'",
    ),
    "exchange_type_unknown": (
        lambda channel, name: channel.exchange_declare(name + "?", "x-other"),
        406,
        "PRECONDITION_FAILED - unknown exchange type 'x-other'",
    ),
    "queue_name_reserved": (
        lambda channel, _: channel.queue_declare("amq.mine"),
        403,
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    "exchange_name_reserved": (
        lambda channel, _: channel.exchange_declare("amq.mine", "direct"),
        403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    "delete_system_exchange": (
        lambda channel, _: channel.exchange_delete("amq.direct"),
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed",
    ),
    "bind_default_exchange": (
        lambda channel, name: channel.queue_bind(name, "", "k"),
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    "delete_default_exchange": (
        lambda channel, _: channel.exchange_delete(""),
        403,
        "ACCESS_REFUSED - operation not permitted on the default exchange",
    ),
    "publish_to_internal_exchange": (
        lambda channel, _: (
            channel.confirm_delivery(),
            channel.basic_publish("amq.rabbitmq.trace", "", b""),
        ),
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'amq.rabbitmq.trace' in vhost '/'",
    ),
    "headers_match": (
        lambda channel, name: channel.queue_bind(
            name, "amq.headers", arguments={"x-match": "some", "a": 1}
        ),
        406,
        'PRECONDITION_FAILED - Invalid x-match field value <<"some">>; expected all, any, '
        "all-with-x, or any-with-x",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_refusal_has_rabbitmqs_code_and_text_and_costs_the_channel_only(
    connection: pika.BlockingConnection, name: str, mistake: str
) -> None:
    action, code, text = REFUSED[mistake]
    channel = connection.channel()
    channel.queue_declare(name, durable=True)
    channel.exchange_declare(name, "direct", durable=True)
    assert refusal(lambda: action(channel, name)) == (code, text.format(name=name))
    assert channel.is_closed
    # The number is free again, and the queue as it was.
    reopened = connection.channel(channel.channel_number)
    assert declared(reopened, name) == (0, 0)


FOREIGN: dict[str, Action] = {
    "declare": lambda channel, queue: channel.queue_declare(queue),
    "declare_exclusive": lambda channel, queue: channel.queue_declare(queue, exclusive=True),
    "passive": lambda channel, queue: channel.queue_declare(queue, passive=True),
    "consume": lambda channel, queue: channel.basic_consume(queue, lambda *_: None),
    "get": lambda channel, queue: channel.basic_get(queue),
    "purge": lambda channel, queue: channel.queue_purge(queue),
    "delete": lambda channel, queue: channel.queue_delete(queue),
    "bind": lambda channel, queue: channel.queue_bind(queue, "amq.fanout"),
    "unbind": lambda channel, queue: channel.queue_unbind(queue, "amq.direct", queue),
}


@pytest.mark.parametrize("action", FOREIGN)
def test_an_exclusive_queue_is_locked_for_other_connections(
    channel: BlockingChannel, connect: Connect, name: str, action: str
) -> None:
    channel.queue_declare(name, exclusive=True)
    channel.queue_bind(name, "amq.direct", name)
    other = connect().channel()
    assert refusal(lambda: FOREIGN[action](other, name)) == (405, LOCKED.format(name=name))
    # Publishing to it is anybody's right.
    publisher = connect().channel()
    publisher.confirm_delivery()
    publisher.basic_publish("", name, b"from elsewhere", mandatory=True)
    assert channel.basic_get(name, auto_ack=True)[2] == b"from elsewhere"


def test_an_exclusive_queue_is_the_same_whether_durable_or_not(
    channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, exclusive=True, durable=True)
    channel.queue_declare(name, exclusive=True)


def test_unbinding_what_is_not_there_is_no_mistake(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name)
    channel.queue_unbind(name + "?", "amq.direct", "k")
    channel.queue_unbind(name, "nowhere", "k")
    channel.queue_unbind(name, "amq.direct", "k")
    channel.exchange_unbind("nowhere", "amq.direct", "k")
    channel.exchange_unbind("amq.direct", "nowhere", "k")


def test_an_exclusive_queue_is_gone_when_its_connection_has_closed(
    connect: Connect, name: str
) -> None:
    for _ in range(20):
        owner = connect()
        owner.channel().queue_declare(name, exclusive=True, durable=True)
        owner.close()
    assert refusal(lambda: connect().channel().queue_declare(name, passive=True))[0] == 404


def test_an_auto_delete_queue_goes_with_its_last_consumer(
    channel: BlockingChannel, connect: Connect, name: str
) -> None:
    channel.queue_declare(name, auto_delete=True)
    channel.basic_publish("", name, b"")
    channel.basic_get(name, auto_ack=True)
    first = channel.basic_consume(name, lambda *_: None)
    second = channel.basic_consume(name, lambda *_: None)
    channel.basic_cancel(first)
    assert declared(channel, name) == (0, 1)
    channel.basic_cancel(second)
    assert refusal(lambda: channel.queue_declare(name, passive=True))[0] == 404
    channel = connect().channel()
    channel.queue_declare(name, auto_delete=True)
    leaving = connect()
    leaving.channel().basic_consume(name, lambda *_: None)
    leaving.close()
    assert refusal(lambda: channel.queue_declare(name, passive=True))[0] == 404


def test_an_auto_delete_exchange_goes_with_its_last_binding(
    channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name)
    channel.exchange_declare(name, "direct", auto_delete=True)
    for key in ("a", "b"):
        channel.queue_bind(name, name, key)
    channel.queue_unbind(name, name, "a")
    channel.exchange_declare(name, passive=True)
    channel.queue_delete(name)
    assert refusal(lambda: channel.exchange_declare(name, passive=True))[0] == 404


def test_deleting_if_unused_and_if_empty_is_refused_while_it_is_not(
    connection: pika.BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    channel.queue_declare(name)
    channel.basic_publish("", name, b"a")
    where = f"PRECONDITION_FAILED - queue '{name}' in vhost '/'"
    assert refusal(lambda: channel.queue_delete(name, if_empty=True)) == (406, f"{where} not empty")
    channel = connection.channel()
    tag = channel.basic_consume(name, lambda *_: None)
    other = connection.channel()
    assert refusal(lambda: other.queue_delete(name, if_unused=True)) == (406, f"{where} in use")
    channel.basic_cancel(tag)
    channel.basic_recover(requeue=True)
    assert channel.queue_delete(name, if_unused=True).method.message_count == 1
    assert channel.queue_delete(name).method.message_count == 0


def test_deleting_an_exchange_if_unused_is_refused_while_it_has_bindings(
    connection: pika.BlockingConnection, name: str
) -> None:
    channel = connection.channel()
    channel.queue_declare(name)
    channel.exchange_declare(name, "direct")
    channel.queue_bind(name, name, "k")
    assert refusal(lambda: channel.exchange_delete(name, if_unused=True)) == (
        406,
        f"PRECONDITION_FAILED - exchange '{name}' in vhost '/' in use",
    )
    channel = connection.channel()
    channel.queue_unbind(name, name, "k")
    channel.queue_unbind(name, name, "k")
    channel.exchange_delete(name, if_unused=True)
    channel.exchange_delete(name)


def test_a_purge_takes_the_ready_messages_only(channel: BlockingChannel, name: str) -> None:
    channel.queue_declare(name, durable=True)
    for number in range(5):
        channel.basic_publish("", name, bytes([number]), pika.BasicProperties(delivery_mode=2))
    taken: Any = channel.basic_get(name)
    assert channel.queue_purge(name).method.message_count == 4
    assert channel.basic_get(name) == (None, None, None)
    channel.basic_nack(taken[0].delivery_tag)
    method, _, body = channel.basic_get(name)
    assert (method.redelivered, body) == (True, b"\0")
