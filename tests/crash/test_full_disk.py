"""On a full disk the server refuses publishes, does everything else, and recovers by itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Exchange, Queue, Tx

from amqp_server.base.config import Limits
from amqp_server.broker.queue import Queue as BrokerQueue
from tests.amqp_client import AmqpClient, connect
from tests.crash.full_disk import FullDisk
from tests.crash.messages import drain, publish_confirmed
from tests.threaded_server import ThreadedServer

pytestmark = pytest.mark.crash

TRANSIENT = Basic.Properties(delivery_mode=1)
OFTEN = Limits(alarm_check_seconds=0.02)


@pytest.fixture
def disk(tmp_path: Path) -> FullDisk:
    """Return the file system of a data directory; the directory is there."""
    root = tmp_path / "data"
    root.mkdir()
    return FullDisk(root)


@pytest.fixture
def server(disk: FullDisk) -> Iterator[ThreadedServer]:
    """Start a server on it."""
    with serve(disk) as server:
        yield server


@pytest.fixture
def client(server: ThreadedServer) -> Iterator[AmqpClient]:
    """Open a connection with a queue `q` and confirms on channel 1."""
    with connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        yield client


def serve(disk: FullDisk, **settings: Any) -> ThreadedServer:  # noqa: ANN401 - as the server's
    """Return a server that looks at its disk all the time; tests ask it for checkpoints."""
    settings.setdefault("offset_checkpoint_interval_seconds", 0)
    return ThreadedServer(disk.root, disk, OFTEN, disk_free_limit_bytes=0, **settings)


def queue_of(server: ThreadedServer, name: str = "q") -> BrokerQueue:
    """Return a queue of the server; to be looked at on its loop."""
    return server.server.broker.vhosts["/"].queues[name]


def refused(client: AmqpClient, count: int = 1) -> None:
    """Check that so many publishes are refused."""
    last = None
    while count:
        nack = client.expect(Basic.Nack)
        assert nack.delivery_tag is not None
        count -= 1 if last is None or not nack.multiple else nack.delivery_tag - last
        last = nack.delivery_tag


def wait_until_it_works(server: ThreadedServer, name: str = "q") -> None:
    """Return when the queue's log is written again."""
    queue = queue_of(server, name)
    server.wait_until(lambda: not queue.store.is_failed)


def numbers(client: AmqpClient, queue: str = "q") -> list[int]:
    """Take all messages of a queue and return what they say."""
    return [int(body) for body, _ in drain(client, queue)]


def test_a_queue_continues_by_itself_when_the_disk_has_room_again(
    disk: FullDisk,
    server: ThreadedServer,
    client: AmqpClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    publish_confirmed(client, "q", range(10))
    disk.full = "/logs/"
    client.publish(b"10", "q")
    refused(client)
    # It is tried again soon, and works until the next write: its state says nothing here.
    assert "journal failed" in caplog.text
    # Messages of the queue are still delivered and acknowledged.
    taken = [client.get("q", no_ack=False) for _ in range(5)]
    assert [message.body for message in taken if message] == [b"0", b"1", b"2", b"3", b"4"]
    assert taken[-1] is not None
    client.send(Basic.Ack(taken[-1].tag, multiple=True))
    client.publish(b"11", "q")
    refused(client)

    disk.full = None
    wait_until_it_works(server)
    publish_confirmed(client, "q", range(12, 20))
    assert numbers(client) == [*range(5, 10), *range(12, 20)]
    store = queue_of(server).store
    assert store.recovery_point == store.end_offset


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_no_confirmed_message_is_lost_and_no_refused_one_returns(
    disk: FullDisk, seed: int | None
) -> None:
    """Through a full disk, a checkpoint and then a power cut."""
    with serve(disk, flush_bytes=4096) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q")
            publish_confirmed(client, "q", range(100))
            disk.full = "/logs/"
            for number in range(100, 110):
                client.publish(str(number).encode(), "q")
                refused(client)
            disk.full = None
            wait_until_it_works(server)
            publish_confirmed(client, "q", range(200, 300))
            server.run(server.server.checkpointer.write_now)
            publish_confirmed(client, "q", range(300, 310))
            disk.fail_at = 0
        server.abandon()
    disk.power_cut(None if seed is None else random.Random(seed))
    disk.fail_at = None
    with serve(FullDisk(disk.root)) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        assert numbers(client) == [*range(100), *range(200, 310)]


def test_messages_without_confirms_are_written_when_the_disk_has_room(
    disk: FullDisk, server: ThreadedServer, client: AmqpClient
) -> None:
    """Transient messages were confirmed, and messages without confirms never answered."""
    publish_confirmed(client, "q", range(3))
    client.open_channel(2)
    disk.full = "/logs/"
    client.publish(b"3", "q", channel=2)
    queue = queue_of(server)
    server.wait_until(lambda: queue.store.is_failed)
    disk.full = None
    wait_until_it_works(server)
    server.run(queue.store.make_durable)
    publish_confirmed(client, "q", range(4, 6))
    assert numbers(client) == list(range(6))


def test_a_message_to_a_full_and_a_sound_queue_is_refused_and_kept_by_the_sound_one(
    disk: FullDisk, server: ThreadedServer, client: AmqpClient
) -> None:
    client.declare("sound")
    fanout = Exchange.Declare(exchange="both", exchange_type="fanout")
    client.call(fanout, Exchange.DeclareOk)
    for queue in ("q", "sound"):
        client.call(Queue.Bind(queue=queue, exchange="both", routing_key=""), Queue.BindOk)
    publish_confirmed(client, "q", range(1))
    disk.full = "/q/"
    client.publish(b"1", "", "both")
    refused(client)
    disk.full = None
    wait_until_it_works(server)
    client.publish(b"2", "", "both")
    client.expect_confirmed()
    assert numbers(client, "q") == [0, 2]
    assert numbers(client, "sound") == [1, 2]


def test_messages_that_waited_for_a_slot_keep_their_offsets(disk: FullDisk) -> None:
    """Their places were given to others, with the deadlines of those that were gone."""
    with serve(disk, ring_size=1024) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        client.declare("q")
        client.open_channel(2)
        publish_confirmed(client, "q", range(1))
        disk.full = "/logs/"
        for number in range(1, 3000):
            client.publish(str(number).encode(), "q", channel=2)
        queue = queue_of(server)
        server.wait_until(lambda: queue.store.is_failed)
        disk.full = None
        wait_until_it_works(server)
        server.run(queue.store.make_durable)
        publish_confirmed(client, "q", range(3000, 3010))
        found = numbers(client)
        assert found == sorted(found)
        assert {0, *range(3000, 3010)} <= set(found)


def test_checkpoints_continue_when_the_disk_has_room(
    disk: FullDisk, server: ThreadedServer, client: AmqpClient
) -> None:
    publish_confirmed(client, "q", range(10))
    disk.full = ""
    assert [client.get("q") for _ in range(4)]
    queue = queue_of(server)
    server.wait_until(lambda: queue.settlement.ack_floor == 4)
    with pytest.raises(Exception, match="No space left"):
        server.run(server.server.checkpointer.write_round)
    disk.full = None
    server.run(server.server.checkpointer.write_round)
    assert queue.checkpointed_floor == 4


def test_transactions_and_definitions_continue_when_the_disk_has_room(
    disk: FullDisk, server: ThreadedServer, client: AmqpClient
) -> None:
    publish_confirmed(client, "q", range(1))
    disk.full = ""
    client.open_channel(2)
    client.call(Tx.Select(), Tx.SelectOk, 2)
    client.publish(b"refused", "q", channel=2)
    client.send(Tx.Commit(), 2)
    assert "PRECONDITION_FAILED" in client.expect_channel_close(406, 2).reply_text
    disk.full = None
    client.open_channel(3)
    client.call(Tx.Select(), Tx.SelectOk, 3)
    client.publish(b"1", "q", channel=3)
    client.call(Tx.Commit(), Tx.CommitOk, 3)
    client.declare("another")
    publish_confirmed(client, "another", range(1))
    assert numbers(client) == [0, 1]


def test_a_dead_letter_waits_for_room_and_arrives_once(
    disk: FullDisk, server: ThreadedServer, client: AmqpClient
) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    client.declare("from", arguments=arguments)
    publish_confirmed(client, "q", range(1))
    publish_confirmed(client, "from", range(1, 4))
    disk.full = "/q/"
    for _ in range(3):
        message = client.get("from", no_ack=False)
        assert message is not None
        client.send(Basic.Reject(message.tag, requeue=False))
    server.wait_until(lambda: queue_of(server).store.is_failed)
    assert queue_of(server, "from").settlement.ack_floor == 0
    disk.full = None
    wait_until_it_works(server)
    server.wait_until(lambda: queue_of(server, "from").settlement.ack_floor == 3)
    assert numbers(client) == [0, 1, 2, 3]


def test_a_commit_that_was_under_way_is_applied_once(disk: FullDisk) -> None:
    """Rewritten without its mark, it was not recognized after a crash and arrived twice."""
    with serve(disk) as server:
        with connect(server.address) as client:
            client.open_channel(confirms=True)
            client.declare("q")
            publish_confirmed(client, "q", range(1))
            client.open_channel(2)
            client.call(Tx.Select(), Tx.SelectOk, 2)
            disk.full = "/q/"
            for number in range(1, 5):
                client.publish(str(number).encode(), "q", channel=2)
            client.call(Tx.Commit(), Tx.CommitOk, 2)
            server.wait_until(lambda: queue_of(server).store.is_failed)
            disk.full = None
            wait_until_it_works(server)
            server.run(queue_of(server).store.make_durable)
            disk.fail_at = 0
        server.abandon()
    disk.power_cut()
    with serve(FullDisk(disk.root)) as server, connect(server.address) as client:
        client.open_channel(confirms=True)
        assert numbers(client) == [0, 1, 2, 3, 4]


def test_a_message_that_a_stream_refused_is_delivered_to_no_consumer(
    disk: FullDisk, server: ThreadedServer, client: AmqpClient
) -> None:
    client.declare("s", arguments={"x-queue-type": "stream"})
    publish_confirmed(client, "s", range(10))
    reader = connect(server.address)
    with reader:
        reader.open_channel()
        reader.consume("s", prefetch=100, arguments={"x-stream-offset": "first"})
        disk.full = "/logs/"
        for number in (10, 11):
            client.publish(b"%d" % number, "s")
            refused(client)
        assert client.ready_count("s") == 10
        disk.full = None
        wait_until_it_works(server, "s")
        publish_confirmed(client, "s", range(12, 15))
        assert client.ready_count("s") == 13
        expected = [b"%d" % number for number in (*range(10), 12, 13, 14)]
        assert [reader.expect_delivery().body for _ in range(13)] == expected
    with connect(server.address) as later:
        later.open_channel()
        later.consume("s", prefetch=100, arguments={"x-stream-offset": "first"})
        assert [later.expect_delivery().body for _ in range(13)] == expected
