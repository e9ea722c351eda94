"""What a confirm means when the disk is slow, broken, or without power (invariant I3).

SIGKILL leaves the kernel's page cache alive, so it does not distinguish a synced byte from one
that was only written. Here the server runs inside the test, on a file system that can.
"""

import random
from collections.abc import Iterator

import pytest
from pamqp.commands import Basic, Channel, Exchange, Queue

from amqp_server.base.config import Durability
from tests.amqp_client import AmqpClient, connect
from tests.crash.messages import drain, flags, publish_confirmed
from tests.crash.power import Power
from tests.limits import HANG_SECONDS
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

TRANSIENT = Basic.Properties(delivery_mode=1)


@pytest.fixture
def server(power: Power) -> Iterator[ThreadedServer]:
    """Start a server on it."""
    with ThreadedServer(power.root, power) as server:
        yield server


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[AmqpClient]:
    """Open a connection with a queue `q` and confirms on channel 1."""
    with confirming(server) as client:
        client.declare("q")
        yield client


def confirming(server: ThreadedServer) -> AmqpClient:
    """Return a client with channel 1 in confirm mode."""
    client = connect(server.address)
    client.open_channel(confirms=True)
    return client


def expect_nothing(client: AmqpClient) -> None:
    """Check that nothing was sent to this client up to now, with a question that is answered."""
    client.call(Channel.Flow(active=True), Channel.FlowOk)


def test_a_held_sync_holds_the_confirm_and_releases_it(power: Power, client: AmqpClient) -> None:
    power.sync_gate.clear()
    client.publish(b"held", "q")
    assert power.sync_waiting.wait(HANG_SECONDS)
    expect_nothing(client)
    power.sync_gate.set()
    assert client.expect(Basic.Ack).delivery_tag == 1


def test_a_consumer_need_not_wait_for_the_disk(power: Power, client: AmqpClient) -> None:
    client.declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    client.call(Basic.Consume(queue="quorum", no_ack=True), Basic.ConsumeOk)
    power.sync_gate.clear()
    client.publish(b"early", "quorum")
    assert client.expect_delivery().body == b"early"
    expect_nothing(client)
    power.sync_gate.set()
    assert client.expect(Basic.Ack).delivery_tag == 1


def test_transient_messages_and_other_queues_do_not_wait_for_a_held_sync(
    power: Power, client: AmqpClient
) -> None:
    client.declare("memory", durable=False)
    power.sync_gate.clear()
    client.publish(b"0", "memory")
    assert client.expect(Basic.Ack).delivery_tag == 1
    client.publish(b"1", "q", properties=TRANSIENT)
    assert client.expect(Basic.Ack).delivery_tag == 2
    power.sync_gate.set()


def test_confirms_keep_their_order_behind_a_held_sync(power: Power, client: AmqpClient) -> None:
    client.declare("memory", durable=False)
    power.sync_gate.clear()
    client.publish(b"on its way to the disk", "q")
    assert power.sync_waiting.wait(HANG_SECONDS)
    client.publish(b"needs no disk", "memory")
    client.publish(b"needs the disk too", "q")
    client.send(Channel.Flow(active=True))
    _, answer = client.receive()
    tags = []
    while not isinstance(answer, Channel.FlowOk):
        assert isinstance(answer, Basic.Ack)
        assert not answer.multiple or answer.delivery_tag == 0, "confirmed what is held"
        tags.append(answer.delivery_tag)
        _, answer = client.receive()
    assert tags in ([], [2])
    power.sync_gate.set()
    while client.expect(Basic.Ack).delivery_tag != 3:
        pass


def test_a_message_to_two_queues_waits_for_both(power: Power, client: AmqpClient) -> None:
    client.declare("other")
    fanout = Exchange.Declare(exchange="both", exchange_type="fanout")
    client.call(fanout, Exchange.DeclareOk)
    for queue in ("q", "other"):
        client.call(Queue.Bind(queue=queue, exchange="both", routing_key=""), Queue.BindOk)
    power.broken = "/other/"
    client.publish(b"0", "", "both")
    assert client.expect(Basic.Nack).delivery_tag == 1


def test_a_failed_sync_sends_a_nack_and_fails_its_queue_only(
    power: Power, server: ThreadedServer, client: AmqpClient
) -> None:
    client.declare("sound")
    publish_confirmed(client, "q", range(3))
    publish_confirmed(client, "sound", range(3))
    power.broken = "/q/"
    client.publish(b"refused", "q")
    assert client.expect(Basic.Nack).delivery_tag == 7
    # Final: the disk may lie when it is asked again.
    power.broken = None
    client.publish(b"refused too", "q")
    assert client.expect(Basic.Nack).delivery_tag == 8
    client.publish(b"3", "sound")
    assert client.expect(Basic.Ack).delivery_tag == 9
    with confirming(server) as other:
        assert drain(other, "sound") == flags(range(4), redelivered=False)
        found = other.get("q", no_ack=False)
        assert found is not None
        assert found.body == b"0"


def test_a_nack_answers_all_publishes_that_wait(
    power: Power, server: ThreadedServer, client: AmqpClient
) -> None:
    power.sync_gate.clear()
    client.publish(b"0", "q")
    assert power.sync_waiting.wait(HANG_SECONDS)
    for number in range(1, 20):
        client.publish(str(number).encode(), "q")
    expect_nothing(client)
    power.unplug()
    refused = 0
    while refused < 20:
        nack = client.expect(Basic.Nack)
        assert nack.delivery_tag is not None
        refused = nack.delivery_tag
    server.abandon()


@pytest.mark.parametrize("durability", [Durability.WRITE, Durability.NONE])
def test_a_server_with_a_lower_durability_does_not_wait_for_the_disk(
    power: Power, durability: Durability
) -> None:
    with ThreadedServer(power.root, power, durability=durability) as server:
        with confirming(server) as client:
            client.declare("q")
            # The first message makes a file, and a new file's name is always synced.
            publish_confirmed(client, "q", range(1))
            power.sync_gate.clear()
            publish_confirmed(client, "q", range(1, 100))
        power.sync_gate.set()


@pytest.mark.parametrize("seed", [None, *range(6)])
def test_a_power_cut_loses_no_confirmed_message(power: Power, seed: int | None) -> None:
    with ThreadedServer(
        power.root, power, offset_checkpoint_interval_seconds=0.01, flush_bytes=4096
    ) as server:
        with confirming(server) as client:
            client.declare("q")
            client.declare("other")
            publish_confirmed(client, "q", range(300), size=100)
            publish_confirmed(client, "other", range(5))
            assert [client.get("q", no_ack=True) for _ in range(20)]
            publish_confirmed(client, "q", range(300, 400), size=100)
            power.sync_gate.clear()
            for number in range(400, 500):
                client.publish(str(number).encode(), "q")
            assert power.sync_waiting.wait(HANG_SECONDS)
            expect_nothing(client)
            power.unplug()
        server.abandon()
    power.lose(None if seed is None else random.Random(seed))
    with ThreadedServer(power.root) as server, confirming(server) as client:
        found = [int(body.rstrip(b".")) for body, _ in drain(client, "q")]
        assert found == sorted(set(found))
        assert set(range(20, 400)) <= set(found)
        assert set(found) <= set(range(500))
        assert [body for body, _ in drain(client, "other")] == [b"0", b"1", b"2", b"3", b"4"]
        publish_confirmed(client, "q", range(1))
        assert drain(client, "q") == flags(range(1), redelivered=False)


@pytest.mark.parametrize("seed", range(4))
def test_acks_never_survive_their_messages_and_hide_new_ones(power: Power, seed: int) -> None:
    with ThreadedServer(power.root, power, offset_checkpoint_interval_seconds=0.01) as server:
        with confirming(server) as client:
            client.declare("q")
            client.declare("other")
            publish_confirmed(client, "q", range(10))
            publish_confirmed(client, "other", range(1))
            power.sync_gate.clear()
            # Delivered and acknowledged in memory before the disk has them.
            for number in range(10, 40):
                client.publish(str(number).encode(), "q")
            take(server, "q", 40)
            # A purge is answered after a checkpoint, which is one for all queues.
            client.call(Queue.Purge(queue="other"), Queue.PurgeOk)
            power.unplug()
        server.abandon()
    power.lose(random.Random(seed) if seed else None)
    with ThreadedServer(power.root) as server, confirming(server) as client:
        old = drain(client, "q")
        publish_confirmed(client, "q", range(100, 120))
        assert drain(client, "q") == flags(range(100, 120), redelivered=False)
        assert {body for body, _ in old} <= {str(number).encode() for number in range(40)}


def take(server: ThreadedServer, queue: str, count: int) -> None:
    """Consume and acknowledge messages on a connection of its own."""
    with confirming(server) as client:
        client.consume(queue)
        messages = [client.expect_delivery() for _ in range(count)]
        client.send(Basic.Ack(messages[-1].tag, multiple=True))
        expect_nothing(client)
