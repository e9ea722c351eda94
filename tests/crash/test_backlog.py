"""More messages than the ring holds are delivered in order, before and after a restart."""

import pytest
from pamqp.commands import Basic

from tests.amqp_client import AmqpClient
from tests.conftest import StartServer
from tests.crash.messages import channel_to, publish_confirmed, stop_cleanly

pytestmark = pytest.mark.crash

COUNT = 5_000
SMALL_RING = ("--ring-size", "1024")
PREFETCH = 300


def consume_all(client: AmqpClient, queue: str) -> list[tuple[int, bool]]:
    """Consume `COUNT` messages with a prefetch limit and acks, until the queue is empty."""
    client.consume(queue, prefetch=PREFETCH)
    taken = []
    for number in range(1, COUNT + 1):
        message = client.expect_delivery()
        taken.append((int(message.body.rstrip(b".")), message.redelivered))
        if number % 100 == 0:
            client.send(Basic.Ack(message.tag, multiple=True))
    assert client.ready_count(queue) == 0
    return taken


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
@pytest.mark.parametrize("interpreted", [True, False], ids=["interpreted", "compiled"])
@pytest.mark.parametrize("size", [0, 2_000], ids=["small", "large"])
def test_a_backlog_larger_than_the_ring_is_delivered_in_order(
    start_server: StartServer, durable: bool, interpreted: bool, size: int
) -> None:
    server = start_server(*SMALL_RING, "--ring-bytes", "1MiB", interpreted=interpreted)
    with channel_to(server) as client:
        client.declare("q", durable=durable)
        publish_confirmed(client, "q", range(COUNT), size=size)
        assert client.ready_count("q") == COUNT
        assert consume_all(client, "q") == [(number, False) for number in range(COUNT)]


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("size", [0, 2_000], ids=["small", "large"])
def test_a_recovered_backlog_larger_than_the_ring_is_delivered_in_order(
    start_server: StartServer, is_clean: bool, size: int
) -> None:
    server = start_server(*SMALL_RING)
    with channel_to(server) as client:
        client.declare("q")
        publish_confirmed(client, "q", range(COUNT), size=size)
        if is_clean:
            stop_cleanly(server, client)
        else:
            server.kill()
    server.restart()
    with channel_to(server) as client:
        assert client.ready_count("q") == COUNT
        # New messages go behind the old ones, through the same ring.
        publish_confirmed(client, "q", range(COUNT, COUNT + 3))
        client.consume("q", no_ack=True)
        taken = [client.expect_delivery() for _ in range(COUNT + 3)]
    assert [int(each.body.rstrip(b".")) for each in taken] == list(range(COUNT + 3))
    assert [each.redelivered for each in taken] == [not is_clean] * COUNT + [False] * 3


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "transient"])
def test_messages_requeued_after_they_left_the_ring_return_to_their_place(
    start_server: StartServer, durable: bool
) -> None:
    server = start_server(*SMALL_RING)
    with channel_to(server) as client:
        client.declare("q", durable=durable)
        publish_confirmed(client, "q", range(200))
        held = [client.get("q", no_ack=False) for _ in range(100)]
        assert all(held)
        publish_confirmed(client, "q", range(200, COUNT))
        for message in held:
            assert message is not None
            if int(message.body) % 3 == 0:
                client.send(Basic.Nack(message.tag, requeue=True))
            else:
                client.send(Basic.Ack(message.tag))
        client.consume("q", no_ack=True)
        back = [number for number in range(100) if number % 3 == 0]
        expected = back + list(range(100, COUNT))
        assert [int(client.expect_delivery().body) for _ in expected] == expected
        assert client.ready_count("q") == 0


def test_a_transient_queue_acknowledged_out_of_order_spills_the_rest(
    start_server: StartServer,
) -> None:
    server = start_server(*SMALL_RING)
    with channel_to(server) as client, channel_to(server) as publisher:
        client.declare("q", durable=False)
        publish_confirmed(publisher, "q", range(1000))
        client.consume("q", prefetch=1000)
        held = [client.expect_delivery() for _ in range(1000)]
        for message in held[1::2]:
            client.send(Basic.Ack(message.tag))
        client.ready_count("q")
        with channel_to(server) as other:
            publish_confirmed(publisher, "q", range(1000, COUNT))
            client.socket.close()
            other.consume("q", no_ack=True)
            expected = list(range(0, 1000, 2)) + list(range(1000, COUNT))
            # The first of them were with a client that is gone: wherever they are, none is lost.
            found = [int(other.expect_delivery().body) for _ in range(COUNT - 500)]
            assert sorted(found) == expected
            assert other.ready_count("q") == 0
