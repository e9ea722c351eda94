"""AMQPStorm: publish, get, consume, and its exceptions."""

from collections.abc import Iterator

import pytest
from amqpstorm.channel import Channel
from amqpstorm.connection import Connection
from amqpstorm.exception import AMQPChannelError, AMQPMessageError
from amqpstorm.message import Message

from tests.interop.conftest import Address
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop


@pytest.fixture
def storm(address: Address) -> Iterator[Channel]:
    """Open a connection and a channel."""
    host, port = address
    with (
        Connection(host, "guest", "guest", port=port, timeout=HANG_SECONDS) as connection,
        connection.channel() as channel,
    ):
        yield channel


def test_publish_get_and_acknowledge(storm: Channel, name: str) -> None:
    storm.queue.declare(name, durable=True)
    storm.confirm_deliveries()
    properties = {"headers": {"a": [1, "two", {"b": None}]}, "delivery_mode": 2}
    assert storm.basic.publish("ä€𝄞", name, properties=properties, mandatory=True)
    message = storm.basic.get(name)
    assert isinstance(message, Message)
    assert message.body == "ä€𝄞"
    assert message.properties["headers"] == properties["headers"]
    message.reject(requeue=True)
    message = storm.basic.get(name)
    assert isinstance(message, Message)
    assert message.redelivered
    message.ack()
    assert storm.basic.get(name) is None
    assert storm.queue.delete(name)["message_count"] == 0


def test_an_unroutable_message_raises(storm: Channel, name: str) -> None:
    storm.confirm_deliveries()
    with pytest.raises(AMQPMessageError):
        storm.basic.publish("back", name, mandatory=True)


def test_consuming_in_batches(storm: Channel, name: str) -> None:
    storm.queue.declare(name)
    storm.basic.qos(10)
    for number in range(50):
        storm.basic.publish(str(number), name)
    taken: list[str] = []

    def take(message: Message) -> None:
        taken.append(str(message.body))
        message.ack()
        if len(taken) == 50:
            storm.stop_consuming()

    storm.basic.consume(take, name)
    storm.start_consuming()
    assert taken == [str(number) for number in range(50)]


def test_a_missing_queue_closes_the_channel_with_404(storm: Channel, name: str) -> None:
    with pytest.raises(AMQPChannelError, match="NOT_FOUND - no queue") as caught:
        storm.queue.declare(name, passive=True)
    assert caught.value.error_code == 404
    storm.open()
    storm.queue.declare(name, exclusive=True)
