"""Exclusive queues belong to one connection, exclusive consumers have their queue alone."""

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.errors import expect_channel_error
from tests.conformance.marks import differs
from tests.conformance.polling import eventually
from tests.conformance.queues import LOCKED, exists, leave

AnyOfQueues = (
    Queue.Declare
    | Queue.Bind
    | Queue.Unbind
    | Queue.Purge
    | Queue.Delete
    | Basic.Consume
    | Basic.Get
)


def is_free(client: AmqpClient, queue: str) -> bool:
    """Whether there is no such queue; one that is still locked is there."""
    client.open_channel(2)
    client.send(Queue.Declare(queue=queue, passive=True), 2)
    close = client.expect(Channel.Close, 2)
    client.send(Channel.CloseOk(), 2)
    return close.reply_code == 404


@pytest.mark.parametrize(
    "method",
    [
        Queue.Declare(queue="q", exclusive=True),
        Queue.Declare(queue="q"),
        Queue.Declare(queue="q", passive=True),
        Queue.Bind(queue="q", exchange="amq.direct", routing_key="k"),
        Queue.Unbind(queue="q", exchange="amq.direct", routing_key="k"),
        Queue.Purge(queue="q"),
        Queue.Delete(queue="q"),
        Basic.Consume(queue="q"),
        Basic.Get(queue="q"),
    ],
    ids=[
        "declare",
        "declare-shared",
        "declare-passive",
        "bind",
        "unbind",
        "purge",
        "delete",
        "consume",
        "get",
    ],
)
def test_another_connection_can_do_nothing_with_an_exclusive_queue(
    connect: Connect, client: AmqpClient, name: str, method: AnyOfQueues
) -> None:
    client.declare(name, exclusive=True)
    client.call(Queue.Bind(queue=name, exchange="amq.direct", routing_key="k"), Queue.BindOk)
    other = connect()
    method.queue = name
    other.send(method)
    expect_channel_error(other, 405, LOCKED.format(name), type(method))
    assert exists(client, name)


def test_unbinding_what_is_not_bound_is_no_error_even_for_another_connection(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, exclusive=True)
    method = Queue.Unbind(queue=name, exchange="amq.direct", routing_key="none")
    connect().call(method, Queue.UnbindOk)


def test_another_connection_may_publish_to_an_exclusive_queue(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, exclusive=True)
    other = connect(confirms=True)
    other.publish(b"for you", name)
    other.expect_confirmed()
    message = client.get(name)
    assert message is not None
    assert message.body == b"for you"


def test_another_channel_of_the_connection_may_use_an_exclusive_queue(
    connect: Connect, name: str
) -> None:
    client = connect(channels=2)
    client.declare(name, exclusive=True, channel=1)
    client.declare(name, exclusive=True, channel=2)
    client.consume(name, channel=2)
    client.publish(b"x", name)
    assert client.expect_delivery(2).body == b"x"


@pytest.mark.parametrize("durable", [True, False])
def test_an_exclusive_queue_is_deleted_with_its_connection(
    connect: Connect, client: AmqpClient, name: str, durable: bool
) -> None:
    owner = connect()
    owner.declare(name, exclusive=True, durable=durable)
    owner.publish(b"x", name)
    leave(owner)
    assert not exists(client, name)


def test_an_exclusive_queue_is_deleted_when_the_socket_is_lost(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    owner = connect()
    owner.declare(name, exclusive=True)
    owner.socket.close()

    eventually(lambda: is_free(client, name))


def test_an_exclusive_queue_stays_when_its_channel_is_closed(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    client.declare(name, exclusive=True, channel=2)
    client.send(Queue.Declare(queue=f"{name}-none", passive=True), 2)
    client.expect_channel_close(404, 2)
    assert exists(client, name)


def test_a_fast_reconnect_finds_the_name_free(connect: Connect, name: str) -> None:
    for _ in range(20):
        owner = connect()
        declared = owner.call(Queue.Declare(queue=name, exclusive=True), Queue.DeclareOk)
        assert declared.message_count == 0
        owner.publish(b"left behind", name)
        leave(owner)


def test_the_owner_may_delete_an_exclusive_queue_and_declare_it_shared(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, exclusive=True)
    client.call(Queue.Delete(queue=name), Queue.DeleteOk)
    client.declare(name)
    assert exists(connect(), name)


# Exclusive consumers

IN_EXCLUSIVE_USE = "ACCESS_REFUSED - queue '{}' in vhost '/' in exclusive use"


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_queue_with_an_exclusive_consumer_takes_no_other(
    connect: Connect, client: AmqpClient, name: str, exclusive: bool
) -> None:
    client.declare(name)
    client.call(Basic.Consume(queue=name, exclusive=True), Basic.ConsumeOk)
    other = connect()
    other.send(Basic.Consume(queue=name, exclusive=exclusive))
    expect_channel_error(other, 403, IN_EXCLUSIVE_USE.format(name), Basic.Consume)


@differs(
    rabbitmq="lets others consume as well",
    reason="a client that asks to be alone relies on it",
)
def test_a_quorum_queue_with_an_exclusive_consumer_takes_no_other(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-queue-type": "quorum"})
    client.call(Basic.Consume(queue=name, exclusive=True), Basic.ConsumeOk)
    other = connect()
    other.send(Basic.Consume(queue=name))
    expect_channel_error(other, 403, IN_EXCLUSIVE_USE.format(name), Basic.Consume)


def test_a_queue_with_a_consumer_takes_no_exclusive_one(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name)
    client.consume(name)
    other = connect()
    other.send(Basic.Consume(queue=name, exclusive=True))
    expect_channel_error(other, 403, IN_EXCLUSIVE_USE.format(name), Basic.Consume)


def test_others_may_still_get_from_a_queue_with_an_exclusive_consumer(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name)
    client.call(Basic.Qos(prefetch_count=1), Basic.QosOk)
    client.call(Basic.Consume(queue=name, exclusive=True), Basic.ConsumeOk)
    client.publish(b"delivered", name)
    client.expect_delivery()
    client.publish(b"left", name)
    other = connect()
    message = eventually(lambda: other.get(name))
    assert message is not None
    assert message.body == b"left"


def test_a_queue_is_free_when_its_exclusive_consumer_is_cancelled(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name)
    client.call(Basic.Consume(queue=name, consumer_tag="c", exclusive=True), Basic.ConsumeOk)
    client.call(Basic.Cancel("c"), Basic.CancelOk)
    connect().call(Basic.Consume(queue=name, exclusive=True), Basic.ConsumeOk)


def test_a_queue_is_free_when_its_exclusive_consumers_connection_is_closed(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name)
    owner = connect()
    owner.call(Basic.Consume(queue=name, exclusive=True), Basic.ConsumeOk)
    leave(owner)
    client.call(Basic.Consume(queue=name, exclusive=True), Basic.ConsumeOk)
