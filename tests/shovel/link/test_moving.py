"""The pump between two real brokers: nothing lost, nothing changed, the order kept."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from amqp_server.protocol.field_values import table_of
from amqp_server.shovel.link.ack_mode import AckMode
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.channel import LinkChannel
from amqp_server.shovel.link.connection import connect
from amqp_server.shovel.link.deliveries import Deliveries, Delivery
from amqp_server.shovel.link.errors import ConsumerCancelled, LinkClosed
from amqp_server.shovel.link.pump import Pump, Route
from amqp_server.testing import Broker
from tests.shovel.link.messages import header_of, properties_of
from tests.shovel.link.relay import Relay


@pytest.fixture
def source() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def destination() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@asynccontextmanager
async def channels(*brokers: Broker) -> AsyncIterator[list[LinkChannel]]:
    opened = [await connect(AmqpUri.parse(each.url)) for each in brokers]
    try:
        yield [await each.open_channel() for each in opened]
    finally:
        for each in opened:
            await each.close()


async def fill(channel: LinkChannel, queue: str, bodies: list[bytes]) -> None:
    confirms = await channel.confirm_select()
    for number, body in enumerate(bodies):
        await channel.publish("", queue, header_of(body, message_id=str(number)), body)
    while confirms.unsettled:
        await channel.activity()


async def drain(channel: LinkChannel, queue: str, count: int) -> list[tuple[str | None, bytes]]:
    deliveries = await channel.consume(queue, consumer_tag=f"drain {queue}")
    found: list[tuple[str | None, bytes]] = []
    while len(found) < count:
        for each in await deliveries.next_batch():
            found.append((properties_of(each.header).message_id, each.body))
            channel.ack(each.tag)
    await channel.cancel(deliveries)
    return found


@pytest.mark.parametrize("mode", list(AckMode))
async def test_messages_of_all_sizes_arrive_in_their_order(
    source: Broker, destination: Broker, mode: AckMode
) -> None:
    bodies = [b"%d" % number for number in range(3000)]
    bodies += [b"", b"x" * 131_064, b"y" * 131_065, b"z" * 1_000_001]
    async with channels(source, source, destination, destination) as (fed, taken, put, read):
        await fed.declare_queue("from")
        await put.declare_queue("to")
        await fill(fed, "from", bodies)
        pump = Pump(taken, put, "from", Route("", "to"), ack_mode=mode)
        running = asyncio.create_task(pump.run())
        found = await drain(read, "to", len(bodies))
        pump.stop()
        await running
        assert found == [(str(number), body) for number, body in enumerate(bodies)]
        assert (pump.moved, pump.in_flight, pump.refused) == (len(bodies), 0, 0)
        await taken.close()
        assert await fed.queue_counts("from") == (0, 0)


async def test_every_property_passes_unchanged(source: Broker, destination: Broker) -> None:
    headers = table_of({"a": 1, "b": [b"\xff", 2.5, None], "c": {"d": True}, "x" * 200: "y" * 5000})
    properties = {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "headers": headers,
        "delivery_mode": 2,
        "priority": 7,
        "correlation_id": "c",
        "reply_to": "r",
        "expiration": "60000",
        "message_id": "m",
        "timestamp": 2**63,
        "type": "t",
        "user_id": "guest",
        "app_id": "a",
        "cluster_id": "k",
    }
    header = header_of(b"body", **properties)
    async with channels(source, destination, destination) as (taken, put, read):
        await taken.declare_queue("from")
        await put.declare_queue("to")
        await taken.publish("", "from", header, b"body")
        await Pump(taken, put, "from", Route("", "to"), limit=1).run()
        (found,) = await (await read.consume("to")).next_batch()
        assert found.header == header
        assert (found.exchange, found.routing_key, found.is_redelivered) == ("", "to", False)


async def test_exchange_and_key_are_kept_unless_they_are_given(
    source: Broker, destination: Broker
) -> None:
    async with channels(source, destination, destination) as (taken, put, read):
        await taken.declare_queue("from")
        await put.declare_exchange("logs", "topic")
        await put.declare_queue("to")
        await put.bind_queue("to", "logs", "#")
        await taken.declare_exchange("logs", "topic")
        await taken.bind_queue("from", "logs", "#")
        await taken.publish("logs", "a.b", header_of(b"1"), b"1")
        await taken.publish("logs", "c.d", header_of(b"2"), b"2")
        await Pump(taken, put, "from", Route(), limit=2).run()
        deliveries = await read.consume("to")
        found: list[Delivery] = []
        while len(found) < 2:
            found += await deliveries.next_batch()
        assert [(each.exchange, each.routing_key) for each in found] == [
            ("logs", "a.b"),
            ("logs", "c.d"),
        ]


async def test_a_limit_is_exact_and_the_rest_stays(source: Broker, destination: Broker) -> None:
    async with channels(source, destination) as (fed, put):
        await fed.declare_queue("from")
        await put.declare_queue("to")
        await fill(fed, "from", [b"%d" % number for number in range(1500)])
        for mode in AckMode:
            async with channels(source) as (taken,):
                pump = Pump(taken, put, "from", Route("", "to"), ack_mode=mode, limit=301)
                await pump.run()
                assert pump.moved == 301
        assert (await put.queue_counts("to"))[0] == 903
        left = await drain(fed, "from", 597)
        assert left[0] == ("903", b"903")


async def test_what_is_in_flight_counts_for_the_limit(
    source: Broker, destination: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ack lets another message come, while the others are not confirmed yet."""
    async with channels(source, source, destination) as (fed, taken, put):
        await fed.declare_queue("from")
        await put.declare_queue("to")
        await fill(fed, "from", [b"%d" % number for number in range(30)])
        pump = Pump(taken, put, "from", Route("", "to"), limit=20)
        settle, write, wait = put._settle, put.write_publishes, pump._wait
        held: list[int] = []

        def settle_the_first(first: int, last: int, *, is_nack: bool) -> None:
            settle(1, 1, is_nack=is_nack)
            held.append(last)

        def write_no_more_than_the_limit(pieces: list[bytes], count: int) -> None:
            assert pump.moved + pump.in_flight + count <= 20
            write(pieces, count)

        async def wait_for_the_next(deliveries: Deliveries) -> None:
            if held and len(deliveries):
                settle(0, max(held), is_nack=False)
                held.clear()
                put.end_of_read()
            await wait(deliveries)

        monkeypatch.setattr(put, "_settle", settle_the_first)
        monkeypatch.setattr(put, "write_publishes", write_no_more_than_the_limit)
        monkeypatch.setattr(pump, "_wait", wait_for_the_next)
        await pump.run()
        assert pump.moved == 20
        assert (await put.queue_counts("to"))[0] == 20


async def test_what_cannot_be_routed_goes_back_and_the_rest_is_moved(
    source: Broker, destination: Broker
) -> None:
    async with channels(source, source, destination, destination) as (fed, taken, put, other):
        await fed.declare_exchange("logs", "topic")
        await fed.declare_queue("from")
        await fed.bind_queue("from", "logs", "#")
        await other.declare_exchange("logs", "topic")
        await other.declare_queue("to")
        await other.bind_queue("to", "logs", "good")
        for number in range(20):
            key = "bad" if number in (3, 11) else "good"
            await fed.publish("logs", key, header_of(b"same"), b"same")
        pump = Pump(taken, put, "from", Route(), rest_seconds=0.01)
        running = asyncio.create_task(pump.run())
        while pump.refused < 3:
            await put.activity()
        assert pump.moved == 18
        assert pump.last_refusal == "312 NO_ROUTE: exchange 'logs' key 'bad'"
        await other.bind_queue("to", "logs", "bad")
        while pump.moved < 20:
            await put.activity()
        pump.stop()
        await running
        assert await other.queue_counts("to") == (20, 0)


async def test_several_messages_that_come_back_changed_stay_and_the_pump_goes_on(
    source: Broker, destination: Broker
) -> None:
    # RabbitMQ returns a message without its header BCC, for example.
    changing = Relay(destination.port, lambda: lambda octets: (octets.replace(b"x", b"y"), False))
    async with (
        channels(source, source, destination) as (fed, taken, other),
        changing as relay,
        await connect(AmqpUri.parse(relay.url)) as link,
    ):
        put = await link.open_channel()
        await fed.declare_queue("from")
        await other.declare_exchange("logs", "topic")
        await other.declare_queue("to")
        for number in range(4):
            header = header_of(b"1", app_id="x" if number < 3 else "z", message_id=str(number))
            await fed.publish("", "from", header, b"1")
        pump = Pump(taken, put, "from", Route("logs", "k"), rest_seconds=0.01)
        running = asyncio.create_task(pump.run())
        while pump.refused < 8 and not running.done():
            await put.activity()
        assert (pump.moved, running.done()) == (0, False)
        await other.bind_queue("to", "logs", "k")
        while pump.moved < 4:
            await put.activity()
        pump.stop()
        await running
        assert {identity for identity, _ in await drain(other, "to", 4)} == set("0123")


async def test_what_a_full_queue_refuses_is_moved_when_there_is_room(
    source: Broker, destination: Broker
) -> None:
    arguments = table_of({"x-max-length": 5, "x-overflow": "reject-publish"})
    async with channels(source, source, destination, destination) as (fed, taken, put, read):
        await fed.declare_queue("from")
        await put.declare_queue("to", arguments)
        await fill(fed, "from", [b"%d" % number for number in range(8)])
        pump = Pump(taken, put, "from", Route("", "to"), rest_seconds=0.01)
        running = asyncio.create_task(pump.run())
        while not pump.refused:
            await put.activity()
        found = await drain(read, "to", 8)
        assert sorted(found) == [(str(number), b"%d" % number) for number in range(8)]
        pump.stop()
        await running
        assert pump.last_refusal == "the destination refused it (nack)"


async def test_a_deleted_queue_ends_the_pump(source: Broker, destination: Broker) -> None:
    async with channels(source, source, destination) as (fed, taken, put):
        await fed.declare_queue("from")
        await put.declare_queue("to")
        pump = Pump(taken, put, "from", Route("", "to"))
        running = asyncio.create_task(pump.run())
        await fill(fed, "from", [b"1"])
        while not pump.moved:
            await put.activity()
        await fed.delete_queue("from")
        with pytest.raises(ConsumerCancelled, match="cancelled the consumer"):
            await running


async def test_a_missing_exchange_ends_the_pump_and_nothing_is_lost(
    source: Broker, destination: Broker
) -> None:
    async with channels(source, source, destination) as (fed, taken, put):
        await fed.declare_queue("from")
        await fill(fed, "from", [b"1", b"2"])
        with pytest.raises(LinkClosed, match="404 NOT_FOUND - no exchange 'none' in vhost '/'"):
            await Pump(taken, put, "from", Route("none", "key")).run()
        await taken.close()
        assert await drain(fed, "from", 2) == [("0", b"1"), ("1", b"2")]
