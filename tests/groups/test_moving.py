"""A group is moved or deleted by a command while something else happens to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Queue

from amqp_server.broker.broker import Broker
from amqp_server.broker.subscriptions.groups import Groups
from amqp_server.control import offsets
from amqp_server.control.protocol import ControlError
from amqp_server.upkeep.checkpointer import Checkpointer
from tests.faults.inline_loop import BEGIN_NS
from tests.faults.inline_server import InlineClient, InlineServer
from tests.groups.member import STREAM, Member, join

WHERE = ("/", STREAM, "")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InlineServer]:
    """A server with four messages in a stream."""
    with InlineServer(tmp_path / "data") as running:
        publisher = running.connect()
        publisher.open_channel(2, confirms=True)
        declare = Queue.Declare(queue=STREAM, durable=True, arguments={"x-queue-type": "stream"})
        assert isinstance(publisher.call(declare), Queue.DeclareOk)
        for _ in range(4):
            publisher.publish(b".", STREAM)
        running.settle()
        yield running


def groups_of(server: InlineServer) -> Groups:
    groups = server.server.broker.vhosts["/"].queues[STREAM].groups
    assert groups is not None
    return groups


def parts(server: InlineServer) -> tuple[Broker, Checkpointer]:
    """Return what a change of a group uses of the server."""
    return server.server.broker, server.server.checkpointer


def joining(server: InlineServer) -> InlineClient:
    """Return a client whose group `g` is being given its first place: 0."""
    client = server.connect()
    client.call(Basic.Qos(prefetch_count=10))
    arguments: dict[str, Any] = {"x-consumer-group": "g", "x-stream-offset": f"ts:{BEGIN_NS}"}
    client.send(Basic.Consume(queue=STREAM, consumer_tag="c", arguments=arguments))
    while "g" not in groups_of(server):
        server.loop.run_some_turns()
    assert groups_of(server).get("g").placing is not None
    return client


def given(server: InlineServer, member: Member) -> list[int]:
    server.settle()
    return [delivery.offset for delivery in member.collect()]


def test_a_seek_waits_for_the_first_place_that_is_being_looked_for(server: InlineServer) -> None:
    client = joining(server)
    moved = server.loop.create_task(offsets.seek(*parts(server), *WHERE, "g", "3", force=True))
    server.settle()
    (row,) = moved.result()
    assert (row["committed"], row["committed_before"]) == (3, None)
    client.take(Basic.ConsumeOk)
    # Perhaps it had something before it was moved.
    assert given(server, Member(client, "g", 10))[-1] == 3
    assert groups_of(server).get("g").offsets.committed == 3


def test_a_group_that_is_deleted_while_it_gets_its_place_begins_anew(server: InlineServer) -> None:
    client = joining(server)
    server.loop.create_task(offsets.delete(*parts(server), *WHERE, "g", force=False))
    server.settle()
    client.take(Basic.ConsumeOk)
    assert given(server, Member(client, "g", 10)) == [0, 1, 2, 3]
    assert groups_of(server).get("g").offsets.committed is None


def test_a_stream_that_is_deleted_before_a_group_is_moved_is_not_found(
    server: InlineServer,
) -> None:
    async def move_and_delete() -> None:
        moving = asyncio.ensure_future(offsets.seek(*parts(server), *WHERE, "g", "1h", force=False))
        await asyncio.sleep(0)
        client.send(Queue.Delete(queue=STREAM))
        await moving

    client = server.connect()
    with pytest.raises(ControlError) as caught:
        server.loop.run_until_complete(move_and_delete())
    assert caught.value.kind == "not_found"
    assert caught.value.reason == f"queue '{STREAM}' in vhost '/' was deleted during the request"


def test_a_deleted_groups_member_leaves_nothing_behind(server: InlineServer) -> None:
    member = join(server, "g", 2, {"x-stream-offset": "first"})
    assert isinstance(member, Member)
    assert given(server, member) == [0, 1]
    queue = server.server.broker.vhosts["/"].queues[STREAM]
    assert len(queue.subscriptions) == 1
    deleting = server.loop.create_task(offsets.delete(*parts(server), *WHERE, "g", force=True))
    server.settle()
    assert deleting.result()[0]["members"] == 1
    assert len(queue.subscriptions) == 0
    assert queue.consumer_count == 0
    member.client.send(Basic.Ack(1))
    member.client.hang_up()
    server.settle()
    again = join(server, "g", 10, {"x-stream-offset": "first"})
    assert isinstance(again, Member)
    assert given(server, again) == [0, 1, 2, 3]
