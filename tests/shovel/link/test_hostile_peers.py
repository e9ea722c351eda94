"""Peers that close, send garbage, or break the protocol: an error that says so, and no wait."""

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest

from amqp_server.protocol.methods import (
    BasicAck,
    BasicCancel,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    QueueDeclareOk,
    method_frame,
)
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.connection import connect
from amqp_server.shovel.link.deliveries import HELD_BYTES_MAX
from amqp_server.shovel.link.errors import CannotConnectError, LinkClosed, LinkError
from amqp_server.shovel.link.pump import Pump, Route
from amqp_server.testing import Broker
from tests.shovel.link.messages import header_of
from tests.shovel.link.relay import Change, Relay, ending_at, inserting, unchanged
from tests.shovel.link.test_moving import channels, fill

COUNT = 40
BODIES = [b"%d" % number + b"x" * 50 for number in range(COUNT)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as found:
        yield found


async def move(source: str, destination: str) -> None:
    """Move `COUNT` messages.

    Raises:
        LinkError: A peer did not do its part.
    """
    async with (
        await connect(AmqpUri.parse(source)) as source_link,
        await connect(AmqpUri.parse(destination)) as destination_link,
    ):
        taken, put = await source_link.open_channel(), await destination_link.open_channel()
        await put.declare_queue("to")
        await Pump(taken, put, "from", Route("", "to"), limit=COUNT).run()


async def refill(broker: Broker) -> None:
    """Put `COUNT` numbered messages into the source, and nothing into the destination."""
    async with channels(broker) as (channel,):
        for queue in ("from", "to"):
            await channel.declare_queue(queue)
            await channel.purge_queue(queue)
        await fill(channel, "from", BODIES)


async def take_all(broker: Broker) -> None:
    """Take messages from both queues until each of `BODIES` was there."""
    async with channels(broker) as (channel,):
        found: set[bytes] = set()
        both = [await channel.consume(queue, consumer_tag=queue) for queue in ("from", "to")]
        while found < set(BODIES):
            arrived = [each.body for deliveries in both for each in deliveries.take()]
            found.update(arrived)
            if not arrived:
                await channel.activity()


@pytest.mark.parametrize("garbage", [b"", bytes(range(64)), b"\x01\x00\x01\x00\x00\x00\x02ab\xce"])
@pytest.mark.parametrize("is_source", [True, False])
async def test_a_peer_that_ends_anywhere_is_told_of_and_nothing_is_lost(
    broker: Broker, garbage: bytes, is_source: bool
) -> None:
    def ends(relay: Relay) -> tuple[str, str]:
        return (relay.url, broker.url) if is_source else (broker.url, relay.url)

    await refill(broker)
    async with Relay(broker.port, unchanged) as relay:
        await move(*ends(relay))
        octets = relay.octets
    for position in range(0, octets - 100, 1 + octets // 12):
        await refill(broker)
        async with Relay(broker.port, ending_at(position, garbage)) as relay:
            with pytest.raises(LinkError):
                await move(*ends(relay))
        await take_all(broker)


HEADER = header_of(b"body")
OTHER = method_frame(1, BasicDeliver("other", 1, False, "", "q"))
DELIVER = method_frame(1, BasicDeliver("link", 1, False, "", "from"))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        (
            method_frame(1, BasicDeliver("other", 1, False, "", "q")) + frame(2, 1, header_of(b"")),
            "no consumer",
        ),
        (DELIVER + DELIVER, "in the middle of a message"),
        (DELIVER + frame(2, 1, HEADER) + frame(2, 1, HEADER), "content header"),
        (DELIVER + frame(2, 1, HEADER) + frame(3, 1, b"longer"), "part of a body"),
        (DELIVER + frame(2, 1, HEADER[:13]), "cut short"),
        (DELIVER + frame(2, 1, struct.pack(">HHQH", 60, 0, 2**40, 0)), "bytes, at most"),
        (frame(1, 1, BasicDeliver.identity + b"\xff") + frame(2, 1, header_of(b"")), "cut short"),
        (frame(3, 1, b"body"), "part of a body"),
        (frame(2, 1, HEADER), "content header without"),
        (frame(2, 0, HEADER), "channel 0"),
        (method_frame(7, BasicAck(1)), "channel 7, which is not open"),
        (method_frame(1, BasicAck(1)), "confirm of publish 1"),
        (method_frame(1, QueueDeclareOk("q", 1, 1)), "which answers nothing"),
        (method_frame(0, ConnectionTune(0, 0, 0)), "which answers nothing"),
        (method_frame(1, BasicPublish()) + frame(2, 1, header_of(b"")), "no broker sends"),
        (frame(1, 1, b"\x00\x63\x00\x63"), "unimplemented"),
        (frame(9, 1, b""), "no frame"),
        (b"HTTP/1.1 400 Bad Request", "no frame"),
        (method_frame(1, ChannelClose(406, "PRECONDITION_FAILED - no")), "406 PRECONDITION_FAILED"),
        (method_frame(0, ConnectionClose(320, "CONNECTION_FORCED - no")), "320 CONNECTION_FORCED"),
        (method_frame(1, BasicCancel("link")), "cancelled the consumer"),
    ],
)
async def test_a_frame_that_may_not_come_ends_the_pump(
    broker: Broker, frames: bytes, reason: str
) -> None:
    await refill(broker)
    async with Relay(broker.port, inserting(frames, BasicConsumeOk.identity)) as relay:
        with pytest.raises(LinkError) as ended:
            await move(relay.url, broker.url)
    assert reason in str(ended.value)
    await take_all(broker)


@pytest.mark.parametrize(
    ("frames", "behind", "reason"),
    [
        (method_frame(1, BasicAck(2**40)), b"\x00\x55\x00\x0b", "confirm of publish"),
        (
            method_frame(1, BasicReturn(312, "NO_ROUTE", "x", "y")) + frame(2, 1, header_of(b"")),
            BasicAck.identity,
            "came back that was not published",
        ),
        (
            # What we answer repeats the text, as far as a short string goes.
            method_frame(1, BasicReturn(312, "😀" * 60, "x", "y")) + frame(2, 1, header_of(b"")),
            BasicAck.identity,
            "came back that was not published",
        ),
    ],
)
async def test_a_destination_cannot_confirm_or_return_what_it_did_not_get(
    broker: Broker, frames: bytes, behind: bytes, reason: str
) -> None:
    await refill(broker)
    async with Relay(broker.port, inserting(frames, behind)) as relay:
        with pytest.raises(LinkClosed) as ended:
            await move(broker.url, relay.url)
    assert reason in str(ended.value)
    await take_all(broker)


@asynccontextmanager
async def scripted(*octets: bytes, closes: bool = True) -> AsyncIterator[str]:
    """Serve clients with octets; yield the address."""
    left: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left.append(writer)
        await reader.readexactly(8)
        for each in octets:
            writer.write(each)
        if closes:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for each in left:
            each.close()
            with suppress(OSError):
                await each.wait_closed()


START = method_frame(0, ConnectionStart(mechanisms=b"PLAIN"))


@pytest.mark.parametrize(
    ("octets", "reason"),
    [
        ([b""], "closed the socket during the login"),
        ([b"AMQP\x00\x00\x09\x01"], "no frame"),
        ([b"\x15\x03\x01\x00\x02\x02\x46"], "closed the socket during the login"),
        ([START], "closed the socket during the login"),
        ([START, START], "the peer sent connection.start during the login"),
        ([START, method_frame(0, ConnectionTune(0, 100, 0))], "frames of at most 100 octets"),
        ([START, method_frame(0, ConnectionClose(403, "no"))], "403 no"),
        ([START, method_frame(0, ConnectionCloseOk())], "connection.close-ok during the login"),
        ([START, method_frame(0, ConnectionBlocked("no"))], "connection.blocked during the login"),
        ([method_frame(0, ConnectionStart(mechanisms=b"GSSAPI"))], "no login by PLAIN, but GSSAPI"),
    ],
)
async def test_a_peer_that_breaks_off_the_login(octets: list[bytes], reason: str) -> None:
    async with scripted(*octets) as url:
        with pytest.raises(LinkClosed) as ended:
            await connect(AmqpUri.parse(url))
    assert reason in str(ended.value)


async def test_a_peer_that_says_nothing_is_given_up() -> None:
    async with scripted(closes=False) as url:
        with pytest.raises(CannotConnectError, match=r"did not answer within 0\.05 s"):
            await connect(AmqpUri.parse(f"{url}?connection_timeout=50"))


@pytest.mark.parametrize("host", ["127.0.0.1:1", "name.invalid"])
async def test_nobody_there(host: str) -> None:
    with pytest.raises(CannotConnectError, match=f"cannot connect to {host[:9]}"):
        await connect(AmqpUri.parse(f"amqp://{host}"))


@pytest.mark.parametrize("name", ["a..b", "x" * 64])
async def test_a_name_that_no_host_has(broker: Broker, name: str) -> None:
    server = f"127.0.0.1:{broker.port}"
    for address in (f"amqp://{name}", f"amqps://{server}?server_name_indication={name}"):
        with pytest.raises(CannotConnectError, match="is no host name"):
            await connect(AmqpUri.parse(address))


async def test_a_wrong_password_is_told(broker: Broker) -> None:
    uri = AmqpUri.parse(f"amqp://guest:wrong@127.0.0.1:{broker.port}")
    with pytest.raises(LinkClosed, match="403 ACCESS_REFUSED - Login was refused"):
        await connect(uri)


async def test_while_publishers_are_blocked_nothing_is_published(broker: Broker) -> None:
    await refill(broker)
    with Broker() as other:
        async with channels(broker, other, other) as (taken, put, look):
            await put.declare_queue("to")
            with other.faults.block_publishers():
                pump = Pump(taken, put, "from", Route("", "to"), limit=COUNT)
                running = asyncio.create_task(pump.run())
                while not put.blocked_reason:
                    await put.activity()
                assert (await look.queue_counts("to"))[0] == 0
            await running
            assert (await look.queue_counts("to"))[0] == COUNT


async def test_a_peer_that_falls_silent_is_noticed_and_one_that_lives_is_kept(
    broker: Broker,
) -> None:
    def deaf() -> Change:
        is_open = False

        def change(octets: bytes) -> tuple[bytes, bool]:
            nonlocal is_open
            # Everything up to `connection.open-ok`, and nothing more.
            passed = b"" if is_open else octets
            is_open = is_open or ConnectionOpenOk.identity in octets
            return passed, False

        return change

    async with (
        Relay(broker.port, deaf) as relay,
        await connect(AmqpUri.parse(f"{broker.url}?heartbeat=1")) as lives,
        await connect(AmqpUri.parse(f"{relay.url}?heartbeat=1")) as silent,
    ):
        with pytest.raises(LinkClosed, match="the peer sent nothing in 2 s"):
            await silent.open_channel()
        assert (await (await lives.open_channel()).declare_queue("lives")).queue == "lives"


async def test_a_consumer_that_takes_nothing_holds_a_few_messages_only(broker: Broker) -> None:
    body = b"x" * 1_000_000
    async with channels(broker, broker) as (fed, read):
        await fed.declare_queue("large")
        confirms = await fed.confirm_select()
        for _ in range(40):
            await fed.publish("", "large", header_of(body), body)
        while confirms.unsettled:
            await fed.activity()
        deliveries = await read.consume("large", no_ack=True)
        while not deliveries.is_full:
            await read.activity()
        # What the sockets still hold comes when these are taken.
        assert HELD_BYTES_MAX // len(body) <= len(deliveries) <= HELD_BYTES_MAX // len(body) + 2
        taken = 0
        while taken < 40:
            taken += len(await deliveries.next_batch())
        await fed.delete_queue("large")
