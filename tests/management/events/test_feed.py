"""A feed: many clients share one follower; who does not read is cut off; the broker may go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from amqp_server.management.broker_client import BrokerClient
from amqp_server.management.following import feed as feeds
from amqp_server.management.following.feed import Feed
from amqp_server.management.http.answers import ApiError
from tests.limits import HANG_SECONDS
from tests.servers import RunningServer


def everything(_value: object) -> bool:
    return True


async def next_event(stream: AsyncIterator[bytes]) -> bytes:
    """Return the next part that is an event."""
    async for part in stream:
        if part.startswith(b"id:"):
            return part
    raise AssertionError("the stream has ended")


def run(path: Path, test: Callable[[Feed, BrokerClient], Awaitable[None]]) -> None:
    async def begin() -> None:
        broker = BrokerClient(path)
        feed = Feed(broker, "events.follow", "events")
        try:
            async with asyncio.timeout(HANG_SECONDS):
                await test(feed, broker)
        finally:
            await feed.stop()
            await broker.close()
            # Closed transports close their sockets in the next turn.
            await asyncio.sleep(0)

    asyncio.run(begin())


async def begun(feed: Feed) -> AsyncIterator[bytes]:
    """Return a stream that follows."""
    stream = feed.stream("", everything)
    assert await anext(stream) == b":\n\n"
    return stream


async def some_turns() -> None:
    """Let the event loop do what it can do at once."""
    for _ in range(10):
        await asyncio.sleep(0)


async def closed(stream: AsyncIterator[bytes]) -> None:
    """End a stream, as a client that goes."""
    await stream.aclose()  # type: ignore[attr-defined]


class TellingBroker:
    """A broker that tells what a test gives to `calls`, and when."""

    def __init__(self) -> None:
        self.calls: list[Callable[[object], None]] = []
        self.left = asyncio.Event()

    def feed(self) -> Feed:
        return Feed(cast("BrokerClient", self), "events.follow", "events")

    async def call(
        self, command: str, arguments: object, *, on_progress: Callable[[object], None]
    ) -> None:
        self.calls.append(on_progress)
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()

    async def asked(self, count: int = 1) -> None:
        """Wait for a call, and until all that it begins has had its turn."""
        while len(self.calls) < count:  # noqa: ASYNC110 - the broker has no event
            await asyncio.sleep(0)
        await some_turns()


async def test_a_stream_begins_when_the_broker_tells_what_happens() -> None:
    """Who acts on its headers would else miss what it has done."""
    broker = TellingBroker()
    feed = broker.feed()
    stream = feed.stream("", everything)
    first = asyncio.ensure_future(anext(stream))
    await broker.asked()
    assert not first.done()
    broker.calls[0]({"events": []})
    assert await first == b":\n\n"
    broker.calls[0]({"events": [{"event": "vhost.created"}]})
    assert b"vhost.created" in await next_event(stream)
    await feed.stop()


async def test_a_feed_that_has_ended_begins_as_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client neither acts before the broker tells, nor gets what came before the gap."""
    monkeypatch.setattr(feeds, "LINGER_SECONDS", 0.0)
    broker = TellingBroker()
    feed = broker.feed()
    stream = feed.stream("", everything)
    first = asyncio.ensure_future(anext(stream))
    await broker.asked()
    broker.calls[0]({"events": [{"event": "before"}]})
    await first
    await closed(stream)
    await broker.left.wait()

    stream = feed.stream("", everything, earlier_max=10)
    first = asyncio.ensure_future(anext(stream))
    await broker.asked(2)
    assert not first.done()
    broker.calls[1]({"events": []})
    assert await first == b":\n\n"
    broker.calls[1]({"events": [{"event": "after"}]})
    assert b"after" in await next_event(stream)
    await feed.stop()


async def test_a_feed_goes_on_for_a_while_after_its_last_client_not_its_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = TellingBroker()
    feed = broker.feed()
    stream = feed.stream("", everything)
    first = asyncio.ensure_future(anext(stream))
    await broker.asked()
    broker.calls[0]({"events": []})
    await first
    monkeypatch.setattr(feeds, "LINGER_SECONDS", 0.0)
    await closed(stream)
    # It comes before the event loop looks at its timers.
    stream = feed.stream("", everything)
    await anext(stream)
    monkeypatch.setattr(feeds, "LINGER_SECONDS", HANG_SECONDS)
    await closed(stream)
    await some_turns()
    assert not broker.left.is_set()
    await feed.stop()


def test_all_clients_get_the_same(server: RunningServer) -> None:
    async def test(feed: Feed, broker: BrokerClient) -> None:
        streams = [await begun(feed) for _ in range(3)]
        await broker.call("vhosts.add", {"name": "v", "grants_default_user": False})
        assert len({await next_event(stream) for stream in streams}) == 1

    run(server.storage_path, test)


def test_a_client_that_does_not_read_is_cut_off(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "WAITING_MAX", 3)

    async def test(feed: Feed, broker: BrokerClient) -> None:
        slow, quick = await begun(feed), await begun(feed)
        await next_events(slow, broker, 1)
        for number in range(6):
            await broker.call("vhosts.add", {"name": f"v{number}", "grants_default_user": False})
            await next_event(quick)
        assert [part async for part in slow if part.startswith(b"id:")] == []

    async def next_events(stream: AsyncIterator[bytes], broker: BrokerClient, count: int) -> None:
        for number in range(count):
            await broker.call(
                "vhosts.add", {"name": f"first{number}", "grants_default_user": False}
            )
            await next_event(stream)

    run(server.storage_path, test)


def test_too_many_clients_are_refused(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "CLIENTS_MAX", 2)

    async def test(feed: Feed, broker: BrokerClient) -> None:
        del broker
        streams = [await begun(feed) for _ in range(2)]
        with pytest.raises(ApiError, match="503"):
            feed.stream("", everything)
        await closed(streams[0])
        await begun(feed)

    run(server.storage_path, test)


def test_it_follows_the_broker_again_after_a_restart(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "AGAIN_SECONDS", 0.01)

    async def test(feed: Feed, broker: BrokerClient) -> None:
        stream = await begun(feed)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        waiting = asyncio.ensure_future(next_event(stream))
        number = 0
        while not waiting.done():
            await broker.call("vhosts.add", {"name": f"v{number}", "grants_default_user": False})
            number += 1
        assert b"vhost.created" in await waiting

    run(server.storage_path, test)


def test_a_stream_ends_after_its_time(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "STREAM_SECONDS_MAX", 0.0)

    async def test(feed: Feed, broker: BrokerClient) -> None:
        del broker
        assert [part async for part in feed.stream("", everything)] == [b":\n\n"]

    run(server.storage_path, test)
