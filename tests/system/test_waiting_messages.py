"""Accepted messages count at once, also those that wait for a free slot of the ring.

Each way in, and each look at the queue from another connection, while the disk does not write.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Confirm, Tx
from pamqp.commands import Queue as QueueMethods

from amqp_server.base.limits import Limits
from amqp_server.control.client import ask
from amqp_server.control.queue_client import QueueClient
from amqp_server.operations.sharding.shard_set import messages_of
from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.system.held_queue import COUNT, QUEUE, RING, HeldLogs, HeldQueue, bodies
from tests.threaded_server import ThreadedServer

RING_SLOTS = RING["ring_size"]
TRANSIENT = Basic.Properties(delivery_mode=1)


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ThreadedServer, HeldLogs]]:
    """Start one server with small rings for all tests."""
    disk = HeldLogs()
    path = tmp_path_factory.mktemp("held") / "data"
    with ThreadedServer(path, disk, offset_checkpoint_interval_seconds=0, **RING) as server:
        yield server, disk


@pytest.fixture
def held(server: tuple[ThreadedServer, HeldLogs]) -> Iterator[HeldQueue]:
    """Connect the client that fills the queue and the one that looks at it."""
    held = HeldQueue(*server)
    yield held
    held.close()


def commit(held: HeldQueue) -> None:
    held.declare()
    held.commit()


def commit_transient_messages(held: HeldQueue) -> None:
    held.declare()
    held.commit(properties=TRANSIENT)


def commit_into_a_transient_queue(held: HeldQueue) -> None:
    held.declare(durable=False)
    held.commit()


def publish(held: HeldQueue) -> None:
    held.declare()
    held.publish()


def publish_into_a_transient_queue(held: HeldQueue) -> None:
    held.declare(durable=False)
    held.publish()


def confirms(held: HeldQueue) -> None:
    held.declare()
    held.publish_with_confirms()


def confirms_at_write(held: HeldQueue) -> None:
    held.declare(x_durability="write")
    held.publish_with_confirms()


def confirms_at_none(held: HeldQueue) -> None:
    held.declare(x_durability="none")
    held.publish_with_confirms()


def dead_letters(held: HeldQueue) -> None:
    held.declare()
    held.reject()


def replay(held: HeldQueue) -> None:
    held.declare()
    held.replay()


def import_(held: HeldQueue) -> None:
    held.declare()
    held.import_()


def delayed_releases(held: HeldQueue) -> None:
    held.declare()
    held.delay()


every_way_in = pytest.mark.parametrize(
    "fill",
    [
        commit,
        commit_transient_messages,
        commit_into_a_transient_queue,
        publish,
        publish_into_a_transient_queue,
        confirms,
        confirms_at_write,
        confirms_at_none,
        dead_letters,
        replay,
        import_,
        delayed_releases,
    ],
)
Fill = Callable[[HeldQueue], None]


def get_all(client: AmqpClient, count: int, queue: str = QUEUE) -> list[bytes]:
    """Take messages with basic.get; none of them may be missing."""
    got = [client.get(queue) for _ in range(count)]
    return [message.body for message in got if message is not None]


# Each way in


@every_way_in
def test_all_accepted_messages_are_counted(held: HeldQueue, fill: Fill) -> None:
    fill(held)
    accepted = held.accepted()
    assert held.watcher.ready_count(QUEUE) == accepted
    row = held.stats()
    assert (row["ready"], row["unacked"], row["appended"]) == (accepted, 0, accepted)
    assert held.server.call(lambda: messages_of(held.queue)) == accepted
    queues = held.server.server.broker.queues
    ready = held.server.call(lambda: sum(queue.ready_count for queue in queues()))
    assert ask(held.path, "status")["messages_ready"] == ready
    held.let_go()
    held.server.wait_until(lambda: not held.queue.store.is_stalled)


@every_way_in
def test_get_returns_all_accepted_messages_in_order(held: HeldQueue, fill: Fill) -> None:
    fill(held)
    accepted = held.accepted()
    assert get_all(held.watcher, accepted) == bodies(accepted)
    assert held.stats()["unacked"] == 0
    assert held.server.call(lambda: held.queue.store.end_offset) >= accepted


@every_way_in
def test_a_purge_removes_all_accepted_messages(held: HeldQueue, fill: Fill) -> None:
    fill(held)
    accepted = held.accepted()
    queue = held.queue
    held.watcher.send(QueueMethods.Purge(queue=QUEUE))
    # Of a durable queue the answer waits for the disk, which has to know that they are gone.
    held.server.wait_until(lambda: queue.settlement.ack_floor >= accepted)
    held.let_go()
    assert held.watcher.expect(QueueMethods.PurgeOk).message_count == accepted


@every_way_in
def test_a_queue_whose_messages_wait_for_a_slot_is_not_empty(held: HeldQueue, fill: Fill) -> None:
    fill(held)
    accepted = held.accepted()
    get_all(held.watcher, RING_SLOTS if accepted > RING_SLOTS else accepted - 1)
    assert held.watcher.ready_count(QUEUE) > 0
    held.watcher.send(QueueMethods.Delete(queue=QUEUE, if_empty=True))
    close = held.watcher.expect_channel_close(406)
    assert "not empty" in str(close.reply_text)


# What else looks at a queue


def test_delete_ok_counts_messages_that_wait_for_a_slot(held: HeldQueue) -> None:
    commit(held)
    ok = held.watcher.call(QueueMethods.Delete(queue=QUEUE), QueueMethods.DeleteOk)
    assert ok.message_count == COUNT


@pytest.mark.parametrize("durable", [True, False])
def test_a_consumer_gets_and_acks_messages_that_wait_for_a_slot(
    held: HeldQueue, durable: bool
) -> None:
    held.declare(durable=durable)
    held.commit()
    held.watcher.consume(QUEUE)
    got = [held.watcher.expect_delivery() for _ in range(COUNT)]
    assert [message.body for message in got] == bodies(COUNT)
    row = held.stats()
    assert (row["ready"], row["unacked"]) == (0, COUNT)
    held.watcher.send(Basic.Ack(got[-1].tag, multiple=True))
    held.server.wait_until(lambda: held.queue.settlement.ack_floor == COUNT)
    held.let_go()
    held.server.wait_until(lambda: not held.queue.store.is_stalled)
    # The publisher is read again.
    held.publisher.publish(b"next", QUEUE)
    held.publisher.call(Tx.Commit(), Tx.CommitOk)
    assert held.watcher.expect_delivery().body == b"next"


def test_a_waiting_message_that_is_requeued_keeps_its_place(held: HeldQueue) -> None:
    commit(held)
    held.watcher.consume(QUEUE)
    got = [held.watcher.expect_delivery() for _ in range(COUNT)]
    held.watcher.call(Channel.Close(200, "done", 0, 0), Channel.CloseOk)
    held.watcher.open_channel()
    held.let_go()
    held.server.wait_until(lambda: not held.queue.store.is_stalled)
    again = [held.watcher.get(QUEUE) for _ in range(COUNT)]
    assert [message.body for message in again if message is not None] == [m.body for m in got]
    assert all(message is not None and message.redelivered for message in again)


def test_a_purge_of_waiting_messages_unblocks_their_publisher(held: HeldQueue) -> None:
    held.declare(durable=False)
    held.commit()
    assert held.watcher.call(QueueMethods.Purge(queue=QUEUE), QueueMethods.PurgeOk)
    held.server.wait_until(lambda: len(held.queue.store.ring) == 0)
    assert not held.server.call(lambda: held.queue.store.is_stalled)
    held.publisher.publish(b"next", QUEUE)
    held.publisher.call(Tx.Commit(), Tx.CommitOk)
    assert get_all(held.watcher, 1) == [b"next"]


@pytest.mark.parametrize("durability", ["fsync", "write", "none"])
def test_a_purged_message_is_confirmed(held: HeldQueue, durability: str) -> None:
    held.declare(x_durability=durability)
    held.publish_with_confirms()
    accepted = held.accepted()
    queue = held.queue
    held.watcher.send(QueueMethods.Purge(queue=QUEUE))
    held.server.wait_until(lambda: queue.settlement.ack_floor >= accepted)
    held.let_go()
    held.publisher.expect_confirmed()


def test_a_limit_in_messages_drops_the_oldest(held: HeldQueue) -> None:
    held.declare(x_max_length=COUNT - 50)
    held.commit()
    assert held.watcher.ready_count(QUEUE) == COUNT - 50
    assert get_all(held.watcher, 1) == bodies(51)[50:]


def test_a_limit_in_bytes_drops_the_oldest(held: HeldQueue) -> None:
    held.declare(x_max_length_bytes=6 * (COUNT - 50))
    held.commit()
    assert held.watcher.ready_count(QUEUE) == COUNT - 50
    assert get_all(held.watcher, 1) == bodies(51)[50:]


@pytest.mark.parametrize("limit", ["x_max_length", "x_max_length_bytes"])
def test_a_queue_with_reject_publish_counts_waiting_messages(held: HeldQueue, limit: str) -> None:
    most: dict[str, Any] = {limit: COUNT if limit == "x_max_length" else 6 * COUNT}
    held.declare(x_durability="none", x_overflow="reject-publish", **most)
    held.commit(COUNT - 1)
    # The server does not read a client that publishes there afterwards.
    for answer in (Basic.Ack, Basic.Nack):
        with connect(held.server.address) as other:
            other.open_channel(confirms=True)
            other.publish(b"%06d" % 0, QUEUE)
            other.expect(answer)
    assert held.watcher.ready_count(QUEUE) == COUNT


def test_a_commit_that_finds_no_room_is_refused(held: HeldQueue) -> None:
    held.declare(x_max_length=COUNT, x_overflow="reject-publish")
    held.commit()
    held.watcher.call(Tx.Select(), Tx.SelectOk)
    held.watcher.publish(b"too much", QUEUE)
    held.watcher.send(Tx.Commit())
    assert "is full" in str(held.watcher.expect_channel_close(406).reply_text)


def test_a_refused_dead_letter_is_not_ready(held: HeldQueue) -> None:
    held.watcher.declare("letters")
    held.declare(
        durable=False,
        x_max_length=COUNT,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="letters",
    )
    held.commit()
    with connect(held.server.address) as other:
        other.open_channel(confirms=True)
        other.publish(b"too much", QUEUE)
        other.expect(Basic.Nack)
    assert held.watcher.ready_count(QUEUE) == COUNT
    letters = held.server.server.broker.vhosts["/"].queues["letters"]
    held.server.wait_until(lambda: letters.ready_count == 1)
    assert get_all(held.watcher, 1, "letters") == [b"too much"]


def test_waiting_messages_expire(held: HeldQueue) -> None:
    held.declare(x_message_ttl=1)
    held.commit()
    queue = held.queue
    held.server.wait_until(lambda: queue.ready_count == 0)
    assert held.watcher.get(QUEUE) is None


def test_a_message_with_a_lifetime_of_zero_is_offered_before_it_expires(held: HeldQueue) -> None:
    held.declare()
    held.watcher.consume(QUEUE, no_ack=True)
    properties = Basic.Properties(delivery_mode=2, expiration="0")
    held.commit(properties=properties)
    assert [held.watcher.expect_delivery().body for _ in range(COUNT)] == bodies(COUNT)


@pytest.mark.parametrize("durable", [True, False])
def test_waiting_dead_letters_of_a_deleted_queue_are_delivered(
    held: HeldQueue, durable: bool
) -> None:
    held.watcher.declare("letters", durable=durable)
    held.declare(durable=durable, x_dead_letter_exchange="", x_dead_letter_routing_key="letters")
    held.commit()
    assert held.accepted() == COUNT
    held.watcher.consume(QUEUE)
    got = [held.watcher.expect_delivery() for _ in range(COUNT)]
    held.watcher.send(Basic.Nack(got[-1].tag, multiple=True, requeue=False))
    queue = held.queue
    held.watcher.send(QueueMethods.Delete(queue=QUEUE))
    held.server.wait_until(lambda: queue.is_deleted)
    held.let_go()
    letters = held.server.server.broker.vhosts["/"].queues["letters"]
    held.server.wait_until(lambda: letters.ready_count == COUNT)
    with connect(held.server.address) as other:
        other.open_channel()
        assert get_all(other, COUNT, "letters") == bodies(COUNT)


def test_the_delivery_limit_holds_for_waiting_messages(held: HeldQueue) -> None:
    held.declare(x_queue_type="quorum", x_delivery_limit=1)
    held.commit()
    held.watcher.consume(QUEUE, prefetch=COUNT)
    for _ in range(2):
        last = [held.watcher.expect_delivery() for _ in range(COUNT)][-1]
        held.watcher.send(Basic.Nack(last.tag, requeue=True))
        held.watcher.send(Basic.Nack(last.tag - 1, multiple=True, requeue=True))
    held.server.wait_until(lambda: held.queue.settlement.ack_floor == COUNT)
    assert held.stats()["unacked"] == 0


def test_a_waiting_message_of_the_highest_priority_is_delivered_first(held: HeldQueue) -> None:
    held.declare(x_max_priority=5)
    held.publisher.call(Tx.Select(), Tx.SelectOk)
    held.hold()
    for number, body in enumerate(bodies(COUNT)):
        properties = Basic.Properties(delivery_mode=2, priority=number // 300)
        held.publisher.publish(body, QUEUE, properties=properties)
    held.publisher.call(Tx.Commit(), Tx.CommitOk)
    assert get_all(held.watcher, 2) == [b"%06d" % (COUNT - 300), b"%06d" % (COUNT - 299)]


def test_waiting_messages_of_a_transient_queue_are_browsed(held: HeldQueue) -> None:
    commit_into_a_transient_queue(held)
    arguments: Any = {"x-browse": True}
    held.watcher.call(Basic.Qos(prefetch_count=100), Basic.QosOk)
    held.watcher.send(Basic.Consume(queue=QUEUE, arguments=arguments))
    held.watcher.expect(Basic.ConsumeOk)
    got: list[bytes] = []
    while len(got) < COUNT:
        delivery = held.watcher.expect_delivery()
        got.append(delivery.body)
        held.watcher.send(Basic.Ack(delivery.tag))
    assert got == bodies(COUNT)
    rows = [*QueueClient(held.path).browse(QUEUE, start="first")]
    assert [row["state"] for row in rows] == ["ready"] * COUNT
    assert held.watcher.ready_count(QUEUE) == COUNT


def test_messages_that_wait_when_the_disk_fails_are_refused_or_delivered_and_written_later(
    tmp_path: Path,
) -> None:
    disk = HeldLogs()
    often = Limits(alarm_check_seconds=0.02)
    with ThreadedServer(
        tmp_path / "data",
        disk,
        often,
        disk_free_limit_bytes=0,
        offset_checkpoint_interval_seconds=0,
        **RING,
    ) as server:
        held = HeldQueue(server, disk)
        held.declare()
        held.publisher.call(Confirm.Select(), Confirm.SelectOk)
        held.hold()
        for number, body in enumerate(bodies(COUNT)):
            properties = TRANSIENT if number % 2 else PERSISTENT
            held.publisher.publish(body, QUEUE, properties=properties)
        accepted = held.accepted()
        disk.is_full = True
        held.let_go()
        queue = held.queue
        server.wait_until(lambda: queue.store.is_failed)
        kept = bodies(accepted)[1::2]
        assert held.watcher.ready_count(QUEUE) == len(kept)
        first, rest = kept[:100], kept[100:]
        assert get_all(held.watcher, len(first)) == first
        disk.is_full = False
        server.wait_until(lambda: not queue.store.is_failed)
        server.run(queue.store.make_durable)
        assert get_all(held.watcher, len(rest)) == rest
        held.close()
