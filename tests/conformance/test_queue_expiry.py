"""x-expires: the broker deletes a queue after a time without use."""

import time
from collections.abc import Callable

import pytest
from pamqp.commands import Basic, Channel, Connection, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect, NewName
from tests.conformance.polling import eventually

UNUSED_MS = 600
USED_SECONDS = 1.3
"""More than twice as long as the queue would live unused."""
EXPIRING = {"x-expires": UNUSED_MS}
TYPES = pytest.mark.parametrize("queue_type", ["classic", "quorum"])


def is_there(publisher: AmqpClient, queue: str) -> bool:
    """Whether a message is routed to the queue: publishing is no use of it, looking for it is."""
    publisher.publish(b"x", queue, mandatory=True)
    _, answer = publisher.receive()
    if isinstance(answer, Basic.Ack):
        return True
    if isinstance(answer, Connection.Close):
        # RabbitMQ's answer while it deletes a quorum queue.
        assert answer.reply_code == 541
        return True
    assert isinstance(answer, Basic.Return)
    publisher.receive()
    publisher.receive()
    publisher.expect(Basic.Ack)
    return False


def stays(
    client: AmqpClient, publisher: AmqpClient, queue: str, use: Callable[[AmqpClient, str], object]
) -> bool:
    """Use a queue for longer than it lives unused; return whether it was used in time.

    It can only go if it was left alone for as long as it may be: if the machine stood still.
    """
    began = used = time.monotonic()
    client.declare(queue, arguments=EXPIRING)
    left_alone = 0.0
    try:
        while used - began < USED_SECONDS:
            time.sleep(0.05)
            before, used = used, time.monotonic()
            use(client, queue)
            left_alone = max(left_alone, time.monotonic() - before)
        found = is_there(publisher, queue)
    except AssertionError:
        found = False
    left_alone = max(left_alone, time.monotonic() - used)
    assert found or left_alone >= UNUSED_MS / 1000
    return left_alone < UNUSED_MS / 1000


@TYPES
def test_an_unused_queue_is_deleted_with_its_messages(
    connect: Connect, name: str, queue_type: str
) -> None:
    client = connect(confirms=True)
    begin = time.monotonic()
    client.declare(name, arguments=EXPIRING | {"x-queue-type": queue_type})
    eventually(lambda: not is_there(connect(confirms=True), name))
    assert time.monotonic() - begin >= UNUSED_MS / 1000


@pytest.mark.parametrize(
    "use",
    [
        lambda client, queue: client.declare(queue, arguments=EXPIRING),
        lambda client, queue: client.ready_count(queue),
        lambda client, queue: client.get(queue),
    ],
    ids=["declare", "passive", "get"],
)
def test_a_queue_that_is_used_stays(
    connect: Connect, name: str, use: Callable[[AmqpClient, str], object]
) -> None:
    publisher = connect(confirms=True)
    while not stays(connect(), publisher, name, use):
        pass
    eventually(lambda: not is_there(publisher, name))


def test_a_queue_with_a_consumer_stays_until_some_time_after_its_end(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments=EXPIRING)
    client.call(Basic.Consume(queue=name, consumer_tag="c"), Basic.ConsumeOk)
    time.sleep(USED_SECONDS)
    publisher = connect(confirms=True)
    assert is_there(publisher, name)
    client.expect_delivery()
    cancelled = time.monotonic()
    client.call(Basic.Cancel("c"), Basic.CancelOk)
    eventually(lambda: not is_there(publisher, name))
    assert time.monotonic() - cancelled >= UNUSED_MS / 1000 * 0.9


def purge(client: AmqpClient, queue: str) -> None:
    client.send(Queue.Purge(queue=queue))


def bind(client: AmqpClient, queue: str) -> None:
    client.send(Queue.Bind(queue=queue, exchange="amq.fanout"))


def publish(client: AmqpClient, queue: str) -> None:
    client.publish(b"x", queue)
    purge(client, queue)


@pytest.mark.parametrize("do", [publish, purge, bind])
def test_publishing_purging_and_binding_are_no_use(
    client: AmqpClient, name: str, do: Callable[[AmqpClient, str], None]
) -> None:
    client.declare(name, arguments=EXPIRING)

    def is_gone() -> bool:
        do(client, name)
        _, answer = client.receive()
        return isinstance(answer, Channel.Close) and answer.reply_code == 404

    eventually(is_gone)


def test_a_consumer_that_is_lost_starts_the_time_again(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-expires": 300})
    consumer = connect()
    consumer.consume(name)
    consumer.socket.close()
    publisher = connect(confirms=True)
    eventually(lambda: not is_there(publisher, name))


def test_a_delivery_of_an_expired_queue_may_be_acknowledged(
    connect: Connect, client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-expires": 300})
    client.publish(b"", name)
    message = eventually(lambda: client.get(name, no_ack=False))
    assert message is not None
    publisher = connect(confirms=True)
    eventually(lambda: not is_there(publisher, name))
    client.send(Basic.Ack(message.tag))
    client.call(Basic.Qos(), Basic.QosOk)


def test_messages_of_an_expired_queue_are_no_dead_letters(
    connect: Connect, new_name: NewName
) -> None:
    queue, dead_letters = new_name(), new_name()
    client = connect(confirms=True)
    client.declare(dead_letters)
    client.declare(
        queue,
        arguments={
            "x-expires": 300,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": dead_letters,
        },
    )
    client.publish(b"goes with it", queue)
    client.expect_confirmed()
    eventually(lambda: not is_there(client, queue))
    assert client.ready_count(dead_letters) == 0


def test_an_expired_queue_may_be_declared_again(connect: Connect, name: str) -> None:
    client = connect(confirms=True)
    client.declare(name, arguments={"x-expires": 100})
    eventually(lambda: not is_there(client, name))
    answer = client.call(Queue.Declare(queue=name, durable=True), Queue.DeclareOk)
    assert answer.message_count == 0
