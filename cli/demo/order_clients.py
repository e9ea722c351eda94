"""Publisher and consumer of the quick demo, by the client that the broker's shovels use."""

from collections.abc import Callable, Iterable
from itertools import islice
from struct import Struct
from typing import Final

from amqp_server.protocol.properties import Properties
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.channel import LinkChannel, publish_frame
from amqp_server.shovel.link.connection import LinkConnection, connect
from cli.demo.errors import DemoError
from cli.demo.order_book import OrderBook, order_body

QUEUE: Final = "orders"
WINDOW: Final = 1_000
"""Most orders that are sent and not confirmed yet, or received and not acknowledged yet."""
BATCH: Final = 100
"""Orders that are written, or acknowledged, together."""
_HEADER: Final = Struct(">HHQ")
_BASIC: Final = 60
_PROPERTIES: Final = Properties(content_type="application/json", delivery_mode=2).encode()


async def connected(port: int) -> LinkConnection:
    """Return a connection to the broker on a port of this machine.

    Raises:
        LinkError: The broker does not answer, or refuses.
    """
    return await connect(AmqpUri.parse(f"amqp://guest:guest@127.0.0.1:{port}"))


async def publish_orders(
    port: int,
    book: OrderBook,
    numbers: Iterable[int],
    kill_at: int = 0,
    kill: Callable[[], None] = lambda: None,
) -> None:
    """Publish orders to a durable queue; return when all are confirmed, or the broker is dead.

    Args:
        port: Port of the broker on this machine.
        book: Notes what was sent, and what the broker has confirmed.
        numbers: The orders.
        kill_at: Confirmed orders at which `kill` is called; 0: never.
        kill: Kills the broker.

    Raises:
        DemoError: The broker has refused an order.
        LinkError: The connection was lost otherwise.
    """
    async with await connected(port) as connection:
        channel = await connection.open_channel()
        await channel.declare_queue(QUEUE)
        confirms = await channel.confirm_select()
        left = iter(numbers)
        sent: list[int] = []
        noted = 0
        while True:
            while confirms.unsettled < WINDOW and (batch := list(islice(left, BATCH))):
                _write(channel, batch)
                sent += batch
                for number in batch:
                    book.note_sent(number)
            if confirms.nacked:
                raise DemoError("the broker has refused an order (basic.nack)")
            while noted < confirms.floor:
                book.note_confirmed(sent[noted])
                noted += 1
            if kill_at and noted >= kill_at:
                kill()
                return
            if noted == len(sent):
                return
            channel.check_open()
            await channel.activity()


def _write(channel: LinkChannel, numbers: list[int]) -> None:
    start = publish_frame(channel.number, "", QUEUE, is_mandatory=True)
    pieces = []
    for number in numbers:
        body = order_body(number)
        header = _HEADER.pack(_BASIC, 0, len(body)) + _PROPERTIES
        pieces += channel.content_frames(start, header, body)
    channel.write_publishes(pieces, len(numbers))


async def consume_orders(
    port: int, book: OrderBook, count: int | None, kill: Callable[[], None] | None = None
) -> None:
    """Consume orders; each batch is acknowledged.

    Args:
        port: Port of the broker on this machine.
        book: Counts what comes.
        count: Number of messages to take; None takes all that are in the queue.
        kill: Kills the broker at that number, while more are on their way; None ends cleanly.

    Raises:
        LinkError: The connection was lost otherwise.
    """
    async with await connected(port) as connection:
        channel = await connection.open_channel()
        await channel.set_prefetch(WINDOW)
        wanted = (await channel.queue_counts(QUEUE))[0] if count is None else count
        if not wanted:
            return
        deliveries = await channel.consume(QUEUE)
        taken = unacked = 0
        while taken < wanted:
            for delivery in await deliveries.next_batch():
                taken += 1
                unacked += 1
                book.note_received(delivery.body, is_redelivered=delivery.is_redelivered)
                if taken == wanted and kill is not None:
                    kill()
                    return
                if unacked == BATCH or taken == wanted:
                    channel.ack(delivery.tag, multiple=True)
                    unacked = 0
