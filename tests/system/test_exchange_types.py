"""Types of exchanges beside the four of the specification, and types that nobody has."""

from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue

from amqp_server import pick_shard
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer

HASH = "x-consistent-hash"


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


def declare(client: AmqpClient, kind: str, arguments: Any = None, name: str = "x") -> None:  # noqa: ANN401
    client.send(
        Exchange.Declare(exchange=name, exchange_type=kind, durable=True, arguments=arguments)
    )


def declared(client: AmqpClient, kind: str, arguments: Any = None, name: str = "x") -> None:  # noqa: ANN401
    declare(client, kind, arguments, name)
    client.expect(Exchange.DeclareOk)


def counts(client: AmqpClient, channel: int = 1) -> list[int]:
    return [client.ready_count(queue, channel) for queue in "abc"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("x-unknown", "unknown exchange type 'x-unknown'"),
        ("", "invalid exchange type ''"),
    ],
)
@pytest.mark.parametrize("name", ["x", "amq.direct", "amq.new"])
def test_an_unknown_type_is_refused_whatever_the_name(
    client: AmqpClient, kind: str, text: str, name: str
) -> None:
    declare(client, kind, name=name)

    close = client.expect_channel_close(406)

    assert close.reply_text == f"PRECONDITION_FAILED - {text}"
    assert (close.class_id, close.method_id) == (40, 10)


def test_a_key_goes_to_one_queue_by_its_hash(client: AmqpClient) -> None:
    declared(client, HASH)
    for queue in "abc":
        client.call(Queue.Bind(0, queue, "x", "10"), Queue.BindOk)

    for at in range(60):
        client.publish(b"x", f"key {at % 12}", "x")
    client.expect_confirmed()

    assert sum(counts(client)) == 60
    assert all(count % 5 == 0 and count > 0 for count in counts(client))


def test_messages_of_one_run_go_by_their_own_headers(client: AmqpClient) -> None:
    declared(client, HASH, {"hash-header": "user"})
    for queue in "abc":
        client.call(Queue.Bind(0, queue, "x", "1"), Queue.BindOk)
    method = Basic.Publish(0, "x", "same key")
    client.send_raw(
        b"".join(
            client.publish_octets(
                method, b"x", Basic.Properties(headers={"user": at % 20}, delivery_mode=2)
            )
            for at in range(100)
        )
    )
    client.published[1] = 100
    client.expect_confirmed()

    assert sum(counts(client)) == 100
    assert all(count % 5 == 0 and count > 0 for count in counts(client))


def test_a_hash_exchange_is_the_same_after_a_restart(start_server: StartServer) -> None:
    server = start_server()
    with connect(server.address) as client:
        client.open_channel()
        declared(client, HASH, {"hash-property": "message_id"})
        for queue in "abc":
            client.declare(queue)
            client.call(Queue.Bind(0, queue, "x", "3"), Queue.BindOk)
        before = publish_by_id(client)
    server.terminate()
    server.restart()
    with connect(server.address) as client:
        client.open_channel()
        assert publish_by_id(client) == [2 * count for count in before]


def test_buckets_are_in_the_order_of_the_bindings_after_a_restart(
    start_server: StartServer,
) -> None:
    """Definitions are files with a hash for a name: their order says nothing."""
    server = start_server()
    names = [f"q-{shard}" for shard in range(12)]
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        declared(client, HASH)
        for name in [*names, "late"]:
            client.declare(name)
        for name in [*names[:4], "late", *names[4:]]:
            client.call(Queue.Bind(0, name, "x", "1"), Queue.BindOk)
        # What is bound anew is last.
        client.call(Queue.Unbind(0, "late", "x", "1"), Queue.UnbindOk)
        client.call(Queue.Bind(0, "late", "x", "1"), Queue.BindOk)
    server.kill()
    server.restart()
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        for number in range(40):
            client.publish(b"x", f"key-{number}", "x")
            client.expect_confirmed()
            expected = [*names, "late"][pick_shard(f"key-{number}", 13)]
            assert client.get(expected, no_ack=True) is not None


def publish_by_id(client: AmqpClient) -> list[int]:
    for at in range(30):
        properties = Basic.Properties(message_id=str(at), delivery_mode=2)
        client.publish(b"x", "key", "x", properties=properties)
    return counts(client)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"hash-header": "h", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
    ],
)
def test_what_cannot_be_hashed_is_refused(
    client: AmqpClient,
    arguments: Any,  # noqa: ANN401
    text: str,
) -> None:
    declare(client, HASH, arguments)

    close = client.expect_channel_close(406)

    assert close.reply_text == f"PRECONDITION_FAILED - {text}"
    assert (close.class_id, close.method_id) == (40, 10)
    client.open_channel(2)
    client.send(Exchange.Declare(exchange="x", passive=True), 2)
    client.expect_channel_close(404, 2)


def test_a_binding_without_a_weight_is_refused(client: AmqpClient) -> None:
    declared(client, HASH)
    client.send(Queue.Bind(0, "a", "x", "heavy"))

    close = client.expect_channel_close(406)

    assert close.reply_text == (
        'PRECONDITION_FAILED - The binding key must be an integer: <<"heavy">>'
    )
    assert (close.class_id, close.method_id) == (50, 20)


def test_the_binding_of_an_exchange_is_checked_too(client: AmqpClient) -> None:
    declared(client, HASH)
    client.send(Exchange.Bind(0, "amq.fanout", "x", "0"))

    close = client.expect_channel_close(406)

    assert close.reply_text == "PRECONDITION_FAILED - The binding key must be greater than 0"
    assert (close.class_id, close.method_id) == (40, 30)


def test_an_x_match_of_another_kind_is_refused_between_exchanges_too(client: AmqpClient) -> None:
    bad: Any = {"x-match": "some"}
    client.send(Exchange.Bind(0, "amq.fanout", "amq.headers", "", arguments=bad))

    close = client.expect_channel_close(406)

    assert close.reply_text == (
        'PRECONDITION_FAILED - Invalid x-match field value <<"some">>; '
        "expected all, any, all-with-x, or any-with-x"
    )
    assert (close.class_id, close.method_id) == (40, 30)


def test_random_gives_each_message_to_one_queue(client: AmqpClient) -> None:
    declared(client, "x-random")
    for queue in "abc":
        client.call(Queue.Bind(0, queue, "x", ""), Queue.BindOk)
    method = Basic.Publish(0, "x", "key")
    octets = client.publish_octets(method, b"x", Basic.Properties())
    client.send_raw(octets * 300)
    client.published[1] = 300
    client.expect_confirmed()

    assert sum(counts(client)) == 300
    assert min(counts(client)) > 30
