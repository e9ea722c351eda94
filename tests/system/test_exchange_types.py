"""An x-consistent-hash exchange routes after a restart as it did before."""

from typing import Any

from pamqp.commands import Basic, Exchange, Queue

from amqp_server import pick_shard
from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer


def declare(client: AmqpClient, arguments: Any = None) -> None:  # noqa: ANN401
    method = Exchange.Declare(
        exchange="x", exchange_type="x-consistent-hash", durable=True, arguments=arguments
    )
    client.call(method, Exchange.DeclareOk)


def test_a_hash_exchange_is_the_same_after_a_restart(start_server: StartServer) -> None:
    server = start_server()
    with connect(server.address) as client:
        client.open_channel()
        declare(client, {"hash-property": "message_id"})
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
        declare(client)
        for name in [*names, "late"]:
            client.declare(name)
        for name in [*names[:4], "late", *names[4:]]:
            client.call(Queue.Bind(0, name, "x", "1"), Queue.BindOk)
        # A queue that is bound again is last.
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
    return [client.ready_count(queue) for queue in "abc"]
