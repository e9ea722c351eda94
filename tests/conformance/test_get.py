"""basic.get takes one message."""

from pamqp.commands import Basic

from tests.amqp_client import AmqpClient
from tests.conformance.conftest import Connect
from tests.conformance.consuming import consume, expect_bodies, fill, take_unacked
from tests.conformance.errors import expect_channel_error


def test_get_ok_counts_the_ready_messages(client: AmqpClient, name: str) -> None:
    fill(client, name, 3)
    left = [get_ok(client, name).message_count for _ in range(3)]
    assert left == [2, 1, 0]


def test_unacknowledged_messages_are_not_counted(client: AmqpClient, name: str) -> None:
    fill(client, name, 3)
    take_unacked(client, name, 2)
    assert get_ok(client, name).message_count == 0


def test_it_names_where_the_message_came_from(client: AmqpClient, name: str) -> None:
    fill(client, name, 1)
    method = get_ok(client, name)
    assert (method.exchange, method.routing_key) == ("", name)
    assert (method.delivery_tag, method.redelivered) == (1, False)


def test_an_empty_queue_is_no_error(client: AmqpClient, name: str) -> None:
    client.declare(name)
    for _ in range(3):
        assert client.call(Basic.Get(queue=name), Basic.GetEmpty).cluster_id == ""


def test_a_queue_with_nothing_ready_is_empty(client: AmqpClient, name: str) -> None:
    fill(client, name, 1)
    take_unacked(client, name)
    client.call(Basic.Get(queue=name), Basic.GetEmpty)


def test_a_missing_queue_is_an_error(client: AmqpClient, name: str) -> None:
    client.send(Basic.Get(queue=name))
    text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    expect_channel_error(client, 404, text, Basic.Get)


def test_an_empty_name_stands_for_the_queue_declared_last(client: AmqpClient, name: str) -> None:
    fill(client, name, 1)
    message = client.get("")
    assert message is not None
    assert message.body == b"0"


def test_an_empty_name_needs_a_declaration(connect: Connect, name: str) -> None:
    client = connect(channels=2)
    client.declare(name, channel=2)
    client.send(Basic.Get(queue=""))
    text = "NOT_FOUND - no previously declared queue"
    expect_channel_error(client, 404, text, Basic.Get)


def test_it_takes_turns_with_consumers(connect: Connect, name: str) -> None:
    client, other = connect(), connect()
    fill(client, name, 1)
    assert take_unacked(other, name) == [b"0"]
    consume(client, name)
    other.send(Basic.Nack(1, False, True))
    assert expect_bodies(client, 1) == [b"0"]
    other.call(Basic.Get(queue=name), Basic.GetEmpty)


def get_ok(client: AmqpClient, queue: str) -> Basic.GetOk:
    """Take a message that is there and return the method."""
    message = client.get(queue)
    assert message is not None
    assert isinstance(message.method, Basic.GetOk)
    return message.method
