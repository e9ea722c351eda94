"""The server limits what clients may create, and its refusal names the limit."""

from pathlib import Path

from pamqp.commands import Basic, Exchange, Queue

from amqp_server.base.config import Limits
from amqp_server.protocol.constants import ReplyCode
from tests.amqp_client import PERSISTENT, connect
from tests.threaded_server import ThreadedServer


def test_the_client_with_the_most_unfinished_messages_is_refused_at_the_limit(
    tmp_path: Path,
) -> None:
    """One client could fill the room of all, who were then refused in its place."""
    with (
        ThreadedServer(tmp_path, limits=Limits(assembly_bytes_max=300_000)) as server,
        connect(server.address, frame_max=4096) as greedy,
        connect(server.address, frame_max=4096) as modest,
    ):
        greedy.open_channel()
        method = Basic.Publish(0, "", "q")
        octets = greedy.publish_octets(method, bytes(1_000_000), PERSISTENT)
        greedy.send_raw(octets[:300_000])
        budget = server.server.broker.assembly_budget
        server.wait_until(lambda: budget.held_bytes > 290_000)

        modest.open_channel(confirms=True)
        modest.publish(bytes(100_000), "nobody")
        modest.expect(Basic.Ack)

        greedy.send_raw(octets[300_000:310_000])
        close = greedy.expect_connection_close(ReplyCode.RESOURCE_ERROR)
        assert (close.class_id, close.method_id) == (60, 40)
        assert close.reply_text.endswith(
            "more than its share of the 300000 that are allowed in all"
        )
        assert server.call(lambda: budget.held_bytes) == 0


def test_one_queue_too_many_is_refused(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, limits=Limits(queues_max=1)) as server,
        connect(server.address) as client,
    ):
        client.open_channel()
        client.declare("one")
        client.declare("one")

        client.send(Queue.Declare(queue="two"))

        close = client.expect_channel_close(ReplyCode.PRECONDITION_FAILED)
        assert close.reply_text == (
            "PRECONDITION_FAILED - cannot declare queue 'two': "
            "queue limit in vhost '/' (1) is reached"
        )


def test_one_exchange_too_many_is_refused(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, limits=Limits(exchanges_max=9)) as server,
        connect(server.address) as client,
    ):
        client.open_channel()
        client.call(Exchange.Declare(exchange="ninth"), Exchange.DeclareOk)

        client.send(Exchange.Declare(exchange="tenth"))

        close = client.expect_channel_close(ReplyCode.PRECONDITION_FAILED)
        assert "exchange limit in vhost '/' (9) is reached" in close.reply_text


def test_one_binding_too_many_is_refused_and_unbinding_makes_room(tmp_path: Path) -> None:
    with (
        ThreadedServer(tmp_path, limits=Limits(bindings_max=1)) as server,
        connect(server.address) as client,
    ):
        client.open_channel()
        client.declare("q")
        bind = Queue.Bind(queue="q", exchange="amq.topic", routing_key="a")
        client.call(bind, Queue.BindOk)
        unbind = Queue.Unbind(queue="q", exchange="amq.topic", routing_key="a")
        client.call(unbind, Queue.UnbindOk)
        client.call(bind, Queue.BindOk)
        client.call(bind, Queue.BindOk)

        client.send(Queue.Bind(queue="q", exchange="amq.topic", routing_key="b"))

        close = client.expect_channel_close(ReplyCode.PRECONDITION_FAILED)
        assert "binding limit in vhost '/' (1) is reached" in close.reply_text
