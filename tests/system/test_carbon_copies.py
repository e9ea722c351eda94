"""CC and BCC on a real server: who gets a message, what it looks like, and what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from tests.amqp_client import AmqpClient, Message, connect
from tests.servers import RunningServer


@pytest.fixture
def server(swept_server: RunningServer) -> RunningServer:
    """Share one server: it is emptied after each test."""
    return swept_server


@pytest.fixture
def client(server: RunningServer) -> Iterator[AmqpClient]:
    """Queues `a`, `b` and `c`, and confirms."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for queue in "abc":
            client.declare(queue)
        yield client


def copied(**headers: Any) -> Basic.Properties:  # noqa: ANN401 - any field values
    return Basic.Properties(headers=headers, delivery_mode=2)


def got(client: AmqpClient, queue: str) -> Message:
    message = client.get(queue)
    assert message is not None
    return message


def test_each_queue_gets_one_copy_and_nobody_sees_bcc(client: AmqpClient) -> None:
    client.publish(b"x", "a", properties=copied(CC=["b", "a", "b"], BCC=["c", "b"], z=1))
    client.expect_confirmed()

    for queue in "abc":
        message = got(client, queue)
        assert message.properties.headers == {"CC": ["b", "a", "b"], "z": 1}
        assert isinstance(message.method, Basic.GetOk)
        assert message.method.routing_key == "a"
        assert client.get(queue) is None


def test_messages_of_one_run_keep_their_order_whoever_has_copies(client: AmqpClient) -> None:
    method = Basic.Publish(0, "", "a")
    run = [
        client.publish_octets(
            method, b"%d" % at, copied(**({"CC": ["b"]} if at % 3 else {"n": at}))
        )
        for at in range(12)
    ]
    client.send_raw(b"".join(run))
    client.published[1] = len(run)
    client.expect_confirmed()

    assert [got(client, "a").body for _ in range(12)] == [b"%d" % at for at in range(12)]
    assert [got(client, "b").body for _ in range(8)] == [b"%d" % at for at in range(12) if at % 3]


def test_a_topic_exchange_takes_every_key(client: AmqpClient) -> None:
    for queue, pattern in (("a", "one.*"), ("b", "#.two"), ("c", "three")):
        client.call(Queue.Bind(0, queue, "amq.topic", pattern), Queue.BindOk)

    client.publish(b"x", "one.two", "amq.topic", properties=copied(BCC=["three", "one.x"]))
    client.expect_confirmed()

    assert [client.ready_count(queue) for queue in "abc"] == [1, 1, 1]


def test_the_alternate_exchange_is_for_what_none_of_the_keys_routes(client: AmqpClient) -> None:
    client.call(Exchange.Declare(exchange="alternate", exchange_type="fanout"), Exchange.DeclareOk)
    arguments: Any = {"alternate-exchange": "alternate"}
    client.call(Exchange.Declare(exchange="x", arguments=arguments), Exchange.DeclareOk)
    client.call(Queue.Bind(0, "a", "x", "key"), Queue.BindOk)
    client.call(Queue.Bind(0, "b", "alternate"), Queue.BindOk)

    client.publish(b"routed", "none", "x", properties=copied(CC=["key"]))
    client.publish(b"lost", "none", "x", properties=copied(CC=["nor this"]))
    client.expect_confirmed()

    assert got(client, "a").body == b"routed"
    assert got(client, "b").body == b"lost"
    assert client.ready_count("a") == client.ready_count("b") == 0


def test_a_message_that_no_key_routes_is_returned_without_bcc(client: AmqpClient) -> None:
    client.publish(b"x", "none", properties=copied(CC=["nor"], BCC=["this"]), mandatory=True)

    returned = client.expect_return()

    assert returned.properties.headers == {"CC": ["nor"]}
    client.expect_confirmed()


def test_a_mandatory_message_that_only_a_copy_routes_is_not_returned(client: AmqpClient) -> None:
    client.publish(b"x", "none", properties=copied(CC=["a"]), mandatory=True)
    client.expect_confirmed()

    assert client.ready_count("a") == 1


def test_a_header_of_another_type_closes_the_channel(client: AmqpClient) -> None:
    client.publish(b"before", "a")
    client.expect_confirmed()
    client.publish(b"x", "a", properties=copied(CC="b"))

    close = client.expect_channel_close(406)

    assert close.reply_text == (
        'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}'
    )
    assert (close.class_id, close.method_id) == (60, 40)
    client.open_channel(2)
    assert client.ready_count("a", 2) == 1


def test_a_large_message_is_copied_too(client: AmqpClient) -> None:
    body = b"x" * 300_000
    client.publish(body, "a", properties=copied(BCC=["b"]))
    client.expect_confirmed()

    message = got(client, "b")

    assert message.body == body
    assert message.properties.headers == {}
