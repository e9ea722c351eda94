"""What a group says of itself, and what it does when something goes wrong."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from unittest import mock
from uuid import UUID

import pytest
from pamqp.commands import Basic, Channel, Queue

from amqp_server.base.clock import SystemClock
from amqp_server.base.time_slice import TimeSlice
from amqp_server.broker.queue import Queue as BrokerQueue
from amqp_server.broker.subscriptions.delivery_marks import MARKS_MAX, DeliveryMarks
from amqp_server.broker.subscriptions.group import Group, GroupStats
from amqp_server.broker.subscriptions.groups import Groups
from amqp_server.upkeep.group_rounds import GroupRounds
from appendlog import FileSystem
from offsets import (
    CheckpointFailedError,
    GroupInUseError,
    GroupOffsetOutOfRangeError,
    RegressingCommitError,
    UnknownGroupError,
)
from offsets.checkpoint_reading import read_checkpoint
from offsets.group_checkpoint import GroupCheckpoint
from tests.faults.inline_server import InlineClient, InlineServer
from tests.groups.member import SHORT_LIVED, STREAM, Member, join


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InlineServer]:
    with InlineServer(tmp_path / "data") as server:
        publisher = server.connect()
        publisher.open_channel(2, confirms=True)
        publisher.call(Queue.Declare(queue=STREAM, durable=True, arguments={**SHORT_LIVED}))
        for _ in range(10):
            publish(server, publisher)
        yield server


def publish(server: InlineServer, publisher: InlineClient) -> None:
    publisher.publish(b"." * 100, STREAM)
    server.settle()
    server.loop.pass_time(1)


def stream_of(server: InlineServer) -> BrokerQueue:
    return server.server.broker.vhosts["/"].queues[STREAM]


def groups_of(server: InlineServer) -> Groups:
    groups = stream_of(server).groups
    assert groups is not None
    return groups


def group_of(server: InlineServer) -> Group:
    return groups_of(server).get("g")


def member(server: InlineServer, prefetch: int = 5) -> Member:
    answer = join(server, "g", prefetch, {"x-stream-offset": "first"})
    assert isinstance(answer, Member)
    return answer


def stored_groups(path: Path) -> dict[tuple[UUID, str], GroupCheckpoint]:
    """Return what the checkpoint of a server that was stopped has of groups."""
    return read_checkpoint(path / "data" / "offsets", FileSystem()).group_checkpoints()


def stats(server: InlineServer) -> GroupStats:
    server.settle()
    return group_of(server).stats()


def test_a_group_says_what_it_has_done_and_has_to_do(server: InlineServer) -> None:
    client = member(server).client
    assert (stats(server).committed, stats(server).start) == (None, 0)
    for tag in (1, 4):
        client.send(Basic.Ack(tag))
    client.send(Basic.Reject(5, requeue=False))
    found = stats(server)
    assert (found.members, found.committed, found.start, found.lag) == (1, 1, 1, 9)
    assert (found.settled_above, found.unacked, found.ready) == (2, 5, 2)
    assert (found.rejected, found.redelivered) == (1, 0)
    client.send(Basic.Nack(2, requeue=True))
    assert stats(server).redelivered == 1


def test_lag_in_bytes_is_of_the_files_that_are_still_to_be_read(server: InlineServer) -> None:
    groups = groups_of(server)
    segments = server.server.broker.vhosts["/"].queues[STREAM].store.log.segments
    whole = sum(each.data_bytes - each.header_bytes for each in segments)
    sizes = [
        groups.seek(stream_of(server), "g", offset, force=False).stats().lag_bytes
        for offset in range(11)
    ]
    assert sizes[0] == whole
    assert sizes[10] == 0
    assert all(more > less for more, less in itertools.pairwise(sizes))


def test_the_oldest_unacked_is_no_message_that_came_back(server: InlineServer) -> None:
    clock = mock.Mock(return_value=100.0)
    with mock.patch.object(SystemClock, "monotonic", clock):
        first = member(server, 2)
        clock.return_value = 110.0
        second = member(server, 2)
        clock.return_value = 115.0
        assert stats(server).oldest_unacked_seconds == 15.0
        first.client.send(Basic.Ack(1))
        server.settle()
        first.client.hang_up()
        # The second has no room for what the first has left.
        assert stats(server).oldest_unacked_seconds == 5.0
        second.client.hang_up()
        assert stats(server).oldest_unacked_seconds is None


def test_marks_of_deliveries_are_few_and_never_say_that_one_is_older_than_it_is() -> None:
    clock = mock.Mock(return_value=0.0)
    marks = DeliveryMarks(0, clock)
    for number in range(1, 3 * MARKS_MAX):
        clock.return_value = float(number)
        marks.record(number)
    end = 3 * MARKS_MAX
    assert marks.age_seconds(end - 2) == 0
    for offset in range(0, end - 1, 100):
        assert 0 <= marks.age_seconds(offset) <= end - 2 - offset
    assert marks.age_seconds(0) > end / 2
    marks.forget_below(end - 10)
    assert marks.age_seconds(end - 10) <= 10


def test_a_commit_beside_members_takes_them_on(server: InlineServer) -> None:
    consumer = member(server, 3)
    groups_of(server).commit(stream_of(server), "g", 5)
    with pytest.raises(RegressingCommitError):
        groups_of(server).commit(stream_of(server), "g", 4)
    with pytest.raises(GroupOffsetOutOfRangeError):
        groups_of(server).commit(stream_of(server), "g", 11)
    assert [each.offset for each in consumer.collect()] == [0, 1, 2]
    consumer.client.send(Basic.Ack(1), Basic.Nack(3, multiple=True, requeue=True))
    server.settle()
    assert [each.offset for each in consumer.collect()] == [5, 6, 7]
    assert stats(server).lag == 5


def test_a_seek_beside_members_needs_force_and_old_answers_give_credit_only(
    server: InlineServer,
) -> None:
    consumer = member(server, 3)
    with pytest.raises(GroupInUseError):
        groups_of(server).seek(stream_of(server), "g", 1, force=False)
    groups_of(server).seek(stream_of(server), "g", 1, force=True)
    server.settle()
    assert [each.offset for each in consumer.collect()] == [0, 1, 2]
    consumer.client.send(Basic.Ack(1), Basic.Nack(2, requeue=True), Basic.Reject(3, requeue=False))
    server.settle()
    came = consumer.collect()
    assert [(each.offset, each.redelivered) for each in came] == [(n, False) for n in (1, 2, 3)]
    assert (stats(server).start, stats(server).lag) == (1, 9)


def test_a_group_that_is_deleted_is_gone_after_a_restart(
    server: InlineServer, tmp_path: Path
) -> None:
    groups_of(server).commit(stream_of(server), "g", 5)
    server.checkpoint()
    groups_of(server).delete("g")
    with pytest.raises(UnknownGroupError):
        groups_of(server).delete("g")
    server.checkpoint()
    # Nothing of it may come from an older round.
    groups_of(server).seek(stream_of(server), "h", 3, force=False)
    server.stop()
    with InlineServer(tmp_path / "data") as again:
        assert groups_of(again).names() == ["h"]
        assert groups_of(again).get("h").offsets.committed == 3
        consumer = member(again, 1)
        assert [each.offset for each in consumer.collect()] == [0]


def test_a_group_begun_again_between_two_rounds_is_the_new_one(
    server: InlineServer, tmp_path: Path
) -> None:
    groups_of(server).commit(stream_of(server), "g", 5)
    server.checkpoint()
    groups_of(server).delete("g")
    groups_of(server).seek(stream_of(server), "g", 2, force=False)
    server.stop()
    with InlineServer(tmp_path / "data") as again:
        assert group_of(again).offsets.committed == 2


def test_the_groups_of_a_deleted_stream_are_forgotten(server: InlineServer, tmp_path: Path) -> None:
    groups_of(server).commit(stream_of(server), "g", 5)
    server.checkpoint()
    client = server.connect()
    client.call(Queue.Delete(queue=STREAM))
    server.checkpoint()
    client.call(Queue.Declare(queue=STREAM, durable=True, arguments={**SHORT_LIVED}))
    assert groups_of(server).names() == []
    server.stop()
    assert stored_groups(tmp_path) == {}
    with InlineServer(tmp_path / "data") as again:
        assert groups_of(again).names() == []


def test_the_groups_of_a_stream_that_goes_while_they_are_looked_at_are_forgotten(
    server: InlineServer, tmp_path: Path
) -> None:
    groups_of(server).commit(stream_of(server), "g", 5)
    broker = server.server.broker
    queue = broker.vhosts["/"].queues[STREAM]
    yield_if_due = TimeSlice.yield_if_due

    async def delete(time_slice: TimeSlice) -> None:
        if not queue.is_deleted:
            deletion = broker.delete_queue(queue)
            assert deletion.take_step()
            await deletion.finish()
        await yield_if_due(time_slice)

    with mock.patch.object(TimeSlice, "yield_if_due", delete):
        server.checkpoint()
    assert queue.is_deleted
    server.checkpoint()
    server.stop()
    assert stored_groups(tmp_path) == {}


def test_the_loop_goes_on_between_the_groups_that_are_looked_at(
    server: InlineServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = server.server.broker.vhosts["/"].queues[STREAM]
    for number in range(5):
        groups_of(server).commit(stream_of(server), f"g{number}", 1)
    monkeypatch.setattr("amqp_server.base.time_slice.SLICE_SECONDS", 0.0)
    turns = 0

    async def look() -> GroupRounds:
        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        rounds = GroupRounds()
        await rounds.take(queue, TimeSlice(), every=True)
        counting.cancel()
        return rounds

    assert len(asyncio.run(look())) == 5
    assert turns >= 5


def test_without_its_place_on_the_disk_there_is_no_group(server: InlineServer) -> None:
    broker = server.server.broker
    failure = CheckpointFailedError(Path("checkpoint"), OSError(28, "No space left"))
    with mock.patch.object(broker, "write_checkpoint", mock.AsyncMock(side_effect=failure)):
        answer = join(server, "g", 1, {"x-stream-offset": "first"})
    assert isinstance(answer, Channel.Close)
    assert (
        "the position of group 'g' on queue 's' in vhost '/' could not be saved"
        in answer.reply_text
    )
    assert groups_of(server).names() == []
    assert [each.offset for each in member(server, 1).collect()] == [0]


def test_one_group_too_many_is_refused(server: InlineServer) -> None:
    with mock.patch.object(groups_of(server), "_groups_max", 1):
        member(server)
        answer = join(server, "other", 1)
        assert isinstance(answer, Channel.Close)
        assert "no room for group 'other' on queue 's' in vhost '/'" in answer.reply_text
        member(server)


def test_what_retention_takes_from_a_group_is_told_once(server: InlineServer) -> None:
    consumer = member(server, 2)
    server.settle()
    assert [each.dropped for each in consumer.collect()] == [None, None]
    server.loop.pass_time(3700)
    for _ in range(4):
        server.checkpoint()
    found = stats(server)
    assert (found.dropped_total, found.dropped_since_last_poll, found.lag) == (10, 10, 0)
    # What it had is answered without harm, also when it is given back.
    consumer.client.send(Basic.Ack(1), Basic.Nack(2, requeue=True))
    publisher = server.connect()
    for _ in range(2):
        publish(server, publisher)
    assert [(each.offset, each.dropped) for each in consumer.collect()] == [(10, 10), (11, None)]
    found = stats(server)
    assert (found.dropped_total, found.dropped_since_last_poll, found.unacked) == (10, 0, 2)
