"""Redelivered flags and counts after a clean stop, a kill, and a failed dead letter."""

from pathlib import Path

import pytest
from pamqp.commands import Basic

from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.crash.messages import drain
from tests.crash.moving import serve
from tests.crash.power import Power, powered
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

KINDS: dict[str, dict[str, int]] = {"plain": {}, "priorities": {"x-max-priority": 5}}


def publish(client: AmqpClient, numbers: range, *, rising: bool = False) -> None:
    for number in numbers:
        properties = Basic.Properties(delivery_mode=2, priority=number % 5 if rising else 0)
        client.publish(b"%d" % number, "q", properties=properties)
    client.expect_confirmed()


def give_back(client: AmqpClient, times: int, count: int) -> None:
    """Take the first messages, and return all of them, some times."""
    for _ in range(times):
        tags = [getattr(client.get("q", no_ack=False), "tag", 0) for _ in range(count)]
        for tag in tags:
            client.send(Basic.Nack(tag, requeue=True))


def counts(server: ThreadedServer) -> list[tuple[int, int, int]]:
    queue = server.server.broker.vhosts["/"].queues["q"]
    return server.call(lambda: queue.redeliveries(1 << 40))


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_exact_after_a_clean_stop(tmp_path: Path, kind: str) -> None:
    """Of every queue, although only quorum queues deliver the count."""
    power = powered(tmp_path / "data")
    with serve(power) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q", arguments=KINDS[kind])
            publish(client, range(10))
            give_back(client, 3, 2)
            give_back(client, 1, 5)
            client.ready_count("q")
            assert counts(server) == [(0, 2, 4), (2, 5, 1)]
            queue = server.server.broker.vhosts["/"].queues["q"]
            queue.fold_deliveries()
            assert queue.counters.redelivered == 2 + 2 + 2
            # Unacked when the server stops: that is one more return.
            assert client.get("q", no_ack=False) is not None
        server.stop()
    with serve(Power(power.root)) as server:
        assert counts(server) == [(0, 1, 5), (1, 2, 4), (2, 5, 1)]
        with connect(server.address) as client:
            client.open_channel()
            assert [flag for _, flag in drain(client, "q")] == [True] * 5 + [False] * 5


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_kill_counts_are_those_of_the_last_checkpoint_and_all_messages_are_marked(
    tmp_path: Path, kind: str
) -> None:
    power = powered(tmp_path / "data")
    with serve(power) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q", arguments=KINDS[kind])
            publish(client, range(10))
            give_back(client, 2, 2)
            client.ready_count("q")
            report = server.run(server.server.checkpointer.write_now)
            assert report.queues == 1
            give_back(client, 1, 2)
            client.ready_count("q")
            power.unplug()
        server.abandon()
    power.lose()
    with serve(Power(power.root)) as server:
        assert counts(server) == [(0, 2, 2)]
        with connect(server.address) as client:
            client.open_channel()
            assert [flag for _, flag in drain(client, "q")] == [True] * 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_rejected_message_that_could_not_be_forwarded_is_marked_after_a_clean_stop(
    tmp_path: Path, kind: str
) -> None:
    """By priorities there is no watermark below which all was delivered."""
    power = powered(tmp_path / "data")
    with serve(power) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("dead")
            to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
            client.declare("q", arguments={**KINDS[kind], **to_dead})
            publish(client, range(5), rising=kind == "priorities")
            first = client.get("q", no_ack=False)
            assert first is not None
            # Its new queue takes nothing any more.
            power.broken = "/dead/"
            client.publish(b"broken", "dead", properties=PERSISTENT)
            dead = server.server.broker.vhosts["/"].queues["dead"]
            server.wait_until(lambda: dead.store.is_failed)
            client.send(Basic.Reject(first.tag, requeue=False))
            queue = server.server.broker.vhosts["/"].queues["q"]
            forwarder = queue.forwarder
            assert forwarder is not None
            server.wait_until(lambda: forwarder.in_transit({"rejected"}) != [])
        power.broken = None
        server.stop()
    with serve(Power(power.root)) as server, connect(server.address) as client:
        client.open_channel()
        found = dict(drain(client, "q"))
        assert found.pop(first.body) is True
        assert set(found.values()) == {False}
