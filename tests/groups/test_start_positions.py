"""Where a group begins, goes on, or is sent back to: each row of the table in docs/offsets.md."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Channel, Queue

from tests.faults.inline_loop import BEGIN_NS
from tests.faults.inline_server import InlineClient, InlineServer
from tests.groups.member import SHORT_LIVED, STREAM, Member, join

SECOND_NS = 10**9
RESET = {"x-offset-reset": True}


class Stream:
    """A stream on a server in this thread, whose messages are a second apart.

    Args:
        server: Runs.
    """

    def __init__(self, server: InlineServer) -> None:
        self.server = server
        self.publisher = server.connect()
        self.publisher.open_channel(2, confirms=True)
        arguments: dict[str, Any] = {**SHORT_LIVED}
        declare = Queue.Declare(queue=STREAM, durable=True, arguments=arguments)
        assert isinstance(self.publisher.call(declare), Queue.DeclareOk)

    def publish(self, number: int) -> None:
        """Publish some, a second after another."""
        for _ in range(number):
            self.publisher.publish(b"." * 150, STREAM)
            self.server.settle()
            self.server.loop.pass_time(1)

    def member(self, at: object = None, *, reset: bool = False) -> Member:
        """Return a new member of the group `g`; `at` is its `x-stream-offset`, None has none."""
        answer = join(self.server, "g", 100, _arguments(at, reset))
        assert isinstance(answer, Member), answer.reply_text
        return answer

    def refusal(self, at: object, *, reset: bool = False) -> str:
        """Return why a member is refused."""
        answer = join(self.server, "g", 100, _arguments(at, reset))
        assert isinstance(answer, Channel.Close)
        assert answer.reply_code == 406
        return answer.reply_text

    def offsets(self, member: Member) -> list[int]:
        """Return what a member has been given since."""
        self.server.settle()
        return [delivery.offset for delivery in member.collect()]

    def leave(self, member: Member) -> None:
        """Let a member go."""
        member.client.hang_up()
        self.server.settle()

    def have_acked(self, end: int) -> None:
        """Let the group be at `end`: a member has acked what is below, and is gone."""
        member = self.member("first")
        deliveries = member.collect()
        member.client.send(Basic.Ack(deliveries[end - 1].tag, multiple=True))
        self.server.settle()
        self.leave(member)

    def shorten(self) -> None:
        """Let all go that is old: all there is."""
        self.server.loop.pass_time(3601)
        for _ in range(3):
            self.server.checkpoint()


def _arguments(at: object, reset: bool) -> dict[str, Any]:
    named: dict[str, Any] = {} if at is None else {"x-stream-offset": at}
    return named | RESET if reset else named


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    with InlineServer(tmp_path / "data") as server:
        yield Stream(server)


def test_resume_or_earliest(stream: Stream) -> None:
    stream.publish(3)
    member = stream.member("first")
    assert stream.offsets(member) == [0, 1, 2]
    stream.leave(member)
    stream.have_acked(2)
    assert stream.offsets(stream.member("first")) == [2]


@pytest.mark.parametrize("at", [None, "next"])
def test_resume_or_latest(stream: Stream, at: str | None) -> None:
    stream.publish(3)
    member = stream.member(at)
    assert stream.offsets(member) == []
    stream.publish(2)
    assert stream.offsets(member) == [3, 4]
    stream.leave(member)
    stream.publish(1)
    assert stream.offsets(stream.member(at)) == [3, 4, 5]


def test_a_group_that_began_misses_nothing_though_nothing_was_acked(stream: Stream) -> None:
    stream.publish(1)
    stream.leave(stream.member("next"))
    stream.publish(2)
    assert stream.offsets(stream.member("next")) == [1, 2]


def test_reset_to_earliest(stream: Stream) -> None:
    stream.publish(3)
    stream.have_acked(2)
    assert stream.offsets(stream.member("first", reset=True)) == [0, 1, 2]


def test_reset_to_latest(stream: Stream) -> None:
    stream.publish(3)
    stream.have_acked(1)
    member = stream.member("next", reset=True)
    assert stream.offsets(member) == []
    stream.publish(1)
    assert stream.offsets(member) == [3]


def test_exact_offset(stream: Stream) -> None:
    stream.publish(5)
    member = stream.member(3)
    assert stream.offsets(member) == [3, 4]
    stream.leave(member)
    assert stream.offsets(stream.member(1)) == [3, 4]


def test_reset_to_offset(stream: Stream) -> None:
    stream.publish(5)
    stream.have_acked(4)
    assert stream.offsets(stream.member(2, reset=True)) == [2, 3, 4]


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    ("at_ns", "first"), [(0, 0), (SECOND_NS, 1), (SECOND_NS + 1, 2), (2 * SECOND_NS, 2)]
)
def test_exact_timestamp_in_nanoseconds(
    stream: Stream, at_ns: int, first: int, reset: bool
) -> None:
    stream.publish(4)
    if reset:
        stream.have_acked(3)
    member = stream.member(f"ts:{BEGIN_NS + at_ns}", reset=reset)
    assert stream.offsets(member) == [0, 1, 2, 3][first:]


def test_timestamps_of_amqp_ages_and_the_last_few_are_places_too(stream: Stream) -> None:
    stream.publish(4)
    moment = datetime.fromtimestamp(BEGIN_NS / 1e9, UTC) + timedelta(seconds=3)
    for place, expected in ((moment, [3]), ("2s", [2, 3]), (-3, [1, 2, 3]), ("last", [3])):
        member = stream.member(place, reset=True)
        assert stream.offsets(member) == expected
        stream.leave(member)


def test_a_time_after_the_last_message_is_what_comes_next(stream: Stream) -> None:
    stream.publish(2)
    member = stream.member(f"ts:{BEGIN_NS + 100 * SECOND_NS}")
    stream.publish(1)
    assert stream.offsets(member) == [2]


def test_an_offset_beyond_the_end_is_refused_and_leaves_no_group(stream: Stream) -> None:
    stream.publish(2)
    assert "offset 3 is out of range; 0 to 2 is expected" in stream.refusal(3)
    member = stream.member(2)
    stream.publish(1)
    assert stream.offsets(member) == [2]


def test_what_retention_took_from_an_offset_on_is_told(stream: Stream) -> None:
    stream.publish(3)
    stream.shorten()
    stream.publish(2)
    member = stream.member(1)
    stream.server.settle()
    assert [(each.offset, each.dropped) for each in member.collect()] == [(3, 2), (4, None)]
    stream.leave(member)
    member = stream.member(0, reset=True)
    stream.server.settle()
    assert [(each.offset, each.dropped) for each in member.collect()] == [(3, 3), (4, None)]


def test_a_reset_is_refused_while_the_group_has_members(stream: Stream) -> None:
    stream.publish(3)
    stream.have_acked(2)
    first, second = stream.member(), stream.member()
    text = stream.refusal("first", reset=True)
    assert text.endswith(f"group 'g' on queue '{STREAM}' in vhost '/' is in use by 2 consumers")
    assert stream.offsets(first) + stream.offsets(second) == [2]
    stream.leave(first)
    stream.leave(second)
    assert stream.offsets(stream.member("first", reset=True)) == [0, 1, 2]


def test_a_reset_without_a_group_is_refused(stream: Stream) -> None:
    answer = join(stream.server, "", 1, dict(RESET))
    assert isinstance(answer, Channel.Close)
    assert "invalid arg 'x-offset-reset'" in answer.reply_text
    assert "it needs x-consumer-group" in answer.reply_text


def consuming(stream: Stream, at: object) -> InlineClient:
    """Return a client that has asked to join, and has no answer yet."""
    client = stream.server.connect()
    client.call(Basic.Qos(prefetch_count=2))
    named = _arguments(at, False) | {"x-consumer-group": "g"}
    client.send(Basic.Consume(queue=STREAM, consumer_tag="c", arguments=named))
    return client


def test_those_who_join_while_the_place_is_looked_for_get_the_same(stream: Stream) -> None:
    stream.publish(6)
    clients = [consuming(stream, place) for place in (f"ts:{BEGIN_NS + 2 * SECOND_NS}", "first")]
    stream.server.settle()
    members = []
    for client in clients:
        client.take(Basic.ConsumeOk)
        members.append(Member(client, "g", 2))
    assert sorted(stream.offsets(members[0]) + stream.offsets(members[1])) == [2, 3, 4, 5]


def test_who_is_gone_before_the_place_is_found_leaves_it_to_the_others(stream: Stream) -> None:
    stream.publish(4)
    client = consuming(stream, f"ts:{BEGIN_NS + 2 * SECOND_NS}")
    groups = stream.server.server.broker.vhosts["/"].queues[STREAM].groups
    assert groups is not None
    while "g" not in groups:
        stream.server.loop.run_until_complete(asyncio.sleep(0))
    client.hang_up()
    stream.server.settle()
    assert stream.offsets(stream.member("first")) == [2, 3]


def test_a_stream_deleted_while_the_place_is_looked_for_is_not_found(stream: Stream) -> None:
    stream.publish(4)
    client = consuming(stream, f"ts:{BEGIN_NS}")
    stream.publisher.send(Queue.Delete(queue=STREAM))
    stream.server.settle()
    _, answer = client.received.popleft()
    assert isinstance(answer, Channel.Close)
    assert answer.reply_code == 404
