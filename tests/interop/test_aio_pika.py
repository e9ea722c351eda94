"""aio-pika: its robust connection through a restart, confirms, returns, iterators, limits."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractQueue,
)
from aiormq.exceptions import (
    ChannelAccessRefused,
    ChannelLockedResource,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)

from tests.conftest import StartServer
from tests.interop.conftest import Address
from tests.limits import HANG_SECONDS

pytestmark = pytest.mark.interop


@pytest.fixture
async def connection(url: str) -> AsyncIterator[AbstractConnection]:
    """Open a plain connection."""
    async with await aio_pika.connect(url) as opened:
        yield opened


@pytest.fixture
async def channel(connection: AbstractConnection) -> AbstractChannel:
    """Open a channel with confirms."""
    return await connection.channel()


def message(body: bytes, *, persistent: bool = True) -> aio_pika.Message:
    """Return a message to publish."""
    mode = aio_pika.DeliveryMode.PERSISTENT if persistent else aio_pika.DeliveryMode.NOT_PERSISTENT
    return aio_pika.Message(body, delivery_mode=mode)


async def take(queue: AbstractQueue, count: int) -> list[bytes]:
    """Take messages with an iterator and acknowledge each."""
    bodies: list[bytes] = []
    async with queue.iterator(timeout=HANG_SECONDS) as messages:
        async for each in messages:
            async with each.process():
                bodies.append(each.body)
            if len(bodies) == count:
                break
    return bodies


async def test_a_hundred_publishes_at_once_are_all_confirmed(
    channel: AbstractChannel, name: str
) -> None:
    queue = await channel.declare_queue(name, durable=True)
    exchange = channel.default_exchange
    await asyncio.gather(*(exchange.publish(message(b"%d" % n), name) for n in range(100)))
    assert (await take(queue, 100)) == [b"%d" % n for n in range(100)]
    assert (await queue.purge()).message_count == 0
    await queue.delete()


async def test_an_unroutable_message_is_returned(channel: AbstractChannel, name: str) -> None:
    returned: list[AbstractIncomingMessage] = []
    channel.return_callbacks.add(lambda _, each: returned.append(each))
    outcome = await channel.default_exchange.publish(message(b"back"), name)
    assert [each.body for each in returned] == [b"back"]
    assert outcome is not None
    assert outcome.delivery.reply_code == 312  # type: ignore[union-attr]


async def test_an_unroutable_message_raises_where_that_was_asked_for(
    connection: AbstractConnection, name: str
) -> None:
    channel = await connection.channel(on_return_raises=True)
    with pytest.raises(PublishError):
        await channel.default_exchange.publish(message(b"back"), name)
    await channel.declare_queue(name, auto_delete=True)
    await channel.default_exchange.publish(message(b"there"), name)


async def test_a_publish_to_a_missing_exchange_fails_and_the_channel_closes(
    channel: AbstractChannel,
) -> None:
    exchange = await channel.get_exchange("nowhere", ensure=False)
    with pytest.raises((ChannelNotFoundEntity, DeliveryError)):
        await exchange.publish(message(b""), "k")


async def test_an_iterator_acknowledges_rejects_and_requeues(
    channel: AbstractChannel, name: str
) -> None:
    await channel.set_qos(prefetch_count=2)
    queue = await channel.declare_queue(name)
    for number in range(5):
        await channel.default_exchange.publish(message(b"%d" % number), name)
    seen: list[tuple[bytes, bool | None]] = []
    async with queue.iterator(timeout=HANG_SECONDS) as messages:
        async for each in messages:
            seen.append((each.body, each.redelivered))
            if each.body == b"1":
                await each.reject()
            elif each.body == b"2" and not each.redelivered:
                await each.nack(requeue=True)
            else:
                await each.ack()
            if len(seen) == 6:
                break
    assert sorted(seen) == [
        (b"0", False), (b"1", False), (b"2", False), (b"2", True), (b"3", False), (b"4", False),
    ]  # fmt: skip
    assert (await queue.declare()).message_count == 0


async def test_breaking_out_of_an_iterator_gives_the_rest_back_in_order(
    channel: AbstractChannel, name: str
) -> None:
    queue = await channel.declare_queue(name)
    for number in range(20):
        await channel.default_exchange.publish(message(b"%d" % number), name)
    assert await take(queue, 3) == [b"0", b"1", b"2"]
    assert await take(queue, 17) == [b"%d" % number for number in range(3, 20)]


async def test_a_prefetch_limit_holds(
    connection: AbstractConnection, channel: AbstractChannel, name: str
) -> None:
    await channel.set_qos(prefetch_count=3)
    queue = await channel.declare_queue(name)
    other = await connection.channel()
    arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await queue.consume(arrived.put)
    for number in range(10):
        await other.default_exchange.publish(message(b"%d" % number), name)
    first = [await arrived.get() for _ in range(3)]
    assert (await queue.declare()).message_count == 7
    assert arrived.empty()
    await first[-1].ack(multiple=True)
    assert [(await arrived.get()).body for _ in range(3)] == [b"3", b"4", b"5"]
    assert arrived.empty()


async def test_an_exclusive_consumer_keeps_others_out(
    connection: AbstractConnection, channel: AbstractChannel, name: str
) -> None:
    queue = await channel.declare_queue(name)
    await queue.consume(_ignore, exclusive=True)
    second = await (await connection.channel()).get_queue(name)
    with pytest.raises(ChannelAccessRefused):
        await second.consume(_ignore)


async def test_errors_have_their_kinds(connection: AbstractConnection, url: str, name: str) -> None:
    channel = await connection.channel()
    with pytest.raises(ChannelNotFoundEntity):
        await channel.declare_queue(name, passive=True)
    channel = await connection.channel()
    await channel.declare_queue(name, exclusive=True)
    with pytest.raises(ChannelPreconditionFailed):
        await channel.declare_queue(name, exclusive=True, auto_delete=True)
    async with await aio_pika.connect(url) as other:
        with pytest.raises(ChannelLockedResource):
            await (await other.channel()).declare_queue(name)


async def test_bad_credentials_are_refused(address: Address) -> None:
    host, port = address
    with pytest.raises(ProbableAuthenticationError):
        await aio_pika.connect(f"amqp://guest:wrong@{host}:{port}/")


async def test_exchanges_bound_to_exchanges_pass_messages_on(
    channel: AbstractChannel, name: str
) -> None:
    source = await channel.declare_exchange(name + "s", aio_pika.ExchangeType.TOPIC)
    target = await channel.declare_exchange(name + "t", aio_pika.ExchangeType.FANOUT)
    queue = await channel.declare_queue(exclusive=True)
    await target.bind(source, "a.#")
    await queue.bind(target)
    for key in ("a.b", "b.a", "a"):
        await source.publish(message(key.encode()), key, mandatory=False)
    assert await take(queue, 2) == [b"a.b", b"a"]
    await target.unbind(source, "a.#")
    await source.publish(message(b""), "a", mandatory=False)
    assert await queue.get(fail=False) is None
    await source.delete()
    await target.delete()


async def test_header_values_come_back(channel: AbstractChannel, name: str) -> None:
    headers: aio_pika.abc.HeadersType = {
        "float": -0.25,
        "int": 1,
        "long": -(1 << 60),
        "bool": True,
        "void": None,
        "text": "ä€𝄞",
        "array": [1, [2.5, None], {"a": "b"}],
        "table": {"nested": {"deeper": []}},
        "timestamp": datetime(2024, 2, 29, 12, 30, 15, tzinfo=UTC),
        "decimal": Decimal("1.50"),
    }
    queue = await channel.declare_queue(name)
    await channel.default_exchange.publish(aio_pika.Message(b"", headers=headers), name)
    got = await queue.get(timeout=HANG_SECONDS)
    await got.ack()
    assert got.headers == headers


async def test_a_robust_connection_lives_through_a_kill_and_a_restart(
    start_server: StartServer, name: str
) -> None:
    server = start_server()
    server.options += ("--port", str(server.port))
    url = f"amqp://guest:guest@{server.host}:{server.port}/?reconnect_interval=0.2"
    reconnected = asyncio.Event()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(each: AbstractIncomingMessage) -> None:
        async with each.process():
            await arrived.put(each.body)

    async with await aio_pika.connect_robust(url, timeout=HANG_SECONDS) as connection:
        connection.reconnect_callbacks.add(lambda *_: reconnected.set())
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=5)
        exchange = await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC, durable=True)
        work = await channel.declare_queue(name, durable=True)
        await work.bind(exchange, "work.#")
        # Gone with the server; the client makes it again, on the number its channel had.
        own = await channel.declare_queue(name + "-own", exclusive=True)
        await own.bind(exchange, "own")
        backlog = await channel.declare_queue(name + "-backlog", durable=True)
        await backlog.bind(exchange, "backlog")
        await work.consume(handle)
        await own.consume(handle)
        for number in range(10):
            await exchange.publish(message(b"backlog %d" % number), "backlog")
        for round_number in range(2):
            reconnected.clear()
            await exchange.publish(message(b"before"), "work.a")
            assert await asyncio.wait_for(arrived.get(), HANG_SECONDS) == b"before"
            if round_number == 0:
                server.kill()
            else:
                assert server.terminate() == 0
            server.restart()
            await asyncio.wait_for(reconnected.wait(), HANG_SECONDS)
            await exchange.publish(message(b"to work"), "work.b")
            await exchange.publish(message(b"to own"), "own")
            after: set[bytes] = set()
            while not {b"to work", b"to own"} <= after:
                after.add(await asyncio.wait_for(arrived.get(), HANG_SECONDS))
            # The acknowledgement of the message before may not have been durable at the kill.
            assert after <= {b"to work", b"to own", b"before"}
        assert await take(backlog, 10) == [b"backlog %d" % number for number in range(10)]


async def _ignore(_: AbstractIncomingMessage) -> None:
    """Leave a message unanswered."""


async def test_a_stream_is_read_from_a_place(connection: AbstractConnection) -> None:
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=10)
    arguments: dict[str, Any] = {"x-queue-type": "stream"}
    queue = await channel.declare_queue("stream", durable=True, arguments=arguments)
    for number in range(50):
        published = message(b"%d" % number, persistent=number % 2 == 0)
        await channel.default_exchange.publish(published, queue.name)
    for start, first in (("first", 0), (20, 20), (-5, 0), ("last", 49)):
        offsets: list[Any] = []
        async with queue.iterator(
            timeout=HANG_SECONDS, arguments={"x-stream-offset": start}
        ) as messages:
            async for each in messages:
                async with each.process():
                    assert each.body == b"%d" % (first + len(offsets))
                    offsets.append(each.headers["x-stream-offset"])
                if len(offsets) == 50 - first:
                    break
        assert offsets == list(range(first, 50))


async def test_a_stream_that_is_read_on_after_a_restart_has_no_gap(
    start_server: StartServer,
) -> None:
    server = start_server()
    url = f"amqp://{server.host}:{server.port}"
    arguments: dict[str, Any] = {"x-queue-type": "stream"}
    seen: list[int] = []
    for first in (0, 100):
        async with await aio_pika.connect(url) as opened:
            channel = await opened.channel()
            await channel.set_qos(prefetch_count=10)
            queue = await channel.declare_queue("stream", durable=True, arguments=arguments)
            for number in range(first, first + 100):
                await channel.default_exchange.publish(message(b"%d" % number), queue.name)
            start = {"x-stream-offset": len(seen)}
            async with queue.iterator(timeout=HANG_SECONDS, arguments=start) as messages:
                async for each in messages:
                    await each.ack()
                    assert each.body == b"%d" % len(seen)
                    seen.append(len(seen))
                    if len(seen) == (70 if first == 0 else 200):
                        break
        if first == 0:
            server.kill()
            server.restart()
            url = f"amqp://{server.host}:{server.port}"
    assert len(seen) == 200
