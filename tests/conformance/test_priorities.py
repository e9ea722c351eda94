"""x-max-priority: messages of a higher `priority` are delivered first."""

import pytest
from pamqp.commands import Basic, Queue

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.marks import differs
from tests.conformance.queues import publish_all, reject, take


def publish(client: AmqpClient, queue: str, *priorities: int | None) -> None:
    """Publish one message of each priority; the body is its number and priority. Confirmed."""
    for number, priority in enumerate(priorities):
        properties = Basic.Properties(delivery_mode=2, priority=priority)
        publish_all(client, queue, f"{number}:{priority}".encode(), properties=properties)


def order(client: AmqpClient, queue: str, count: int) -> list[str]:
    return [take(client, queue).body.decode() for _ in range(count)]


@pytest.fixture
def client(connect: Connect) -> AmqpClient:
    """Open a connection that confirms."""
    return connect(confirms=True)


def test_higher_priorities_come_first_and_equals_in_their_order(
    client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-max-priority": 5})
    publish(client, name, 1, 5, 3, 1, 5, 0)
    assert order(client, name, 6) == ["1:5", "4:5", "2:3", "0:1", "3:1", "5:0"]


def test_no_priority_is_the_lowest(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-max-priority": 5})
    publish(client, name, None, 0, 1, None)
    assert order(client, name, 4) == ["2:1", "0:None", "1:0", "3:None"]


def test_a_priority_above_the_highest_counts_as_the_highest(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-max-priority": 5})
    publish(client, name, 5, 255, 6, 4)
    message = take(client, name)
    assert message.properties.priority == 5
    message = take(client, name)
    assert message.properties.priority == 255
    assert order(client, name, 2) == ["2:6", "3:4"]


@pytest.mark.parametrize(
    "arguments", [{}, {"x-max-priority": 0}, {"x-queue-type": "quorum"}], ids=str
)
def test_a_queue_without_priorities_keeps_its_order(
    client: AmqpClient, name: str, arguments: dict[str, object]
) -> None:
    client.declare(name, arguments=arguments)
    publish(client, name, 1, 3, 2)
    assert order(client, name, 3) == ["0:1", "1:3", "2:2"]


def test_a_consumer_gets_the_highest_priority_as_soon_as_it_can_take_more(
    client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-max-priority": 255})
    publish(client, name, 1, 200, 100)
    client.consume(name, prefetch=1)
    first = client.expect_delivery()
    assert first.body == b"1:200"
    publish_all(client, name, b"late", properties=Basic.Properties(priority=255))
    client.send(Basic.Ack(first.tag))
    second = client.expect_delivery()
    assert second.body == b"late"
    client.send(Basic.Ack(second.tag))
    assert client.expect_delivery().body == b"2:100"


def test_requeued_messages_take_their_place_among_equal_priorities(
    client: AmqpClient, name: str
) -> None:
    client.declare(name, arguments={"x-max-priority": 5})
    publish(client, name, 1, 3, 1, 3)
    taken = [take(client, name, no_ack=False) for _ in range(3)]
    assert [message.body for message in taken] == [b"1:3", b"3:3", b"0:1"]
    for message in reversed(taken):
        reject(client, message, requeue=True)
    assert order(client, name, 4) == ["1:3", "3:3", "0:1", "2:1"]


def test_all_priorities_are_counted_and_purged(client: AmqpClient, name: str) -> None:
    client.declare(name, arguments={"x-max-priority": 5})
    publish(client, name, 1, 3, 5)
    assert client.ready_count(name) == 3
    assert client.call(Queue.Purge(queue=name), Queue.PurgeOk).message_count == 3
    assert client.get(name) is None


@differs(
    rabbitmq="delivers messages of a priority above 4 first, two of them to one of the others",
    reason="the order of publishing holds; a queue with priorities has x-max-priority",
    since=4,
)
def test_a_quorum_queue_keeps_the_order_of_publishing(client: AmqpClient, name: str) -> None:
    client.declare(name, durable=True, arguments={"x-queue-type": "quorum"})
    publish(client, name, 0, 9, 1, 5)
    assert order(client, name, 4) == ["0:0", "1:9", "2:1", "3:5"]
