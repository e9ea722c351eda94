"""Messages with every property, published in bulk and read back octet for octet."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from amqp_server.protocol.field_values import PythonValue
from amqp_server.protocol.properties import Properties
from amqp_server.protocol.tables import table_of
from amqp_server.shovel.link.amqp_uri import AmqpUri
from amqp_server.shovel.link.connection import connect
from tests.cli.migrate.kinds import Kind

WINDOW = 5000
LOOK_SECONDS = 0.05


def properties_of(number: int, kind: Kind) -> Properties:
    """Return the properties of a message: all of them in turn, always persistent."""
    headers: dict[str, PythonValue] = {
        "text": f"header {number}",
        "long": -(2**40) + number,
        "truth": number % 2 == 0,
        "double": number / 7,
        "nested": {"list": [1, "two", {"three": 3.0}], "empty": {}},
    }
    given: dict[str, object] = {
        "content_type": "application/json",
        "content_encoding": "utf-8",
        "headers": table_of(headers),
        "correlation_id": f"correlation {number}",
        "reply_to": "answers",
        "expiration": str(3_600_000 + number),
        "message_id": f"message {number}",
        "timestamp": 1_600_000_000 + number,
        "type": "order.created",
        "user_id": "guest",
        "app_id": "shop",
        "cluster_id": "old",
    }
    names = sorted(given)
    wanted = [names[number % len(names)]] if number % 3 else names
    priority = number % 10 if kind is Kind.PRIORITY else None
    return Properties(
        delivery_mode=2,
        priority=priority,
        **{name: given[name] for name in wanted},  # type: ignore[arg-type]
    )


def header_of(properties: Properties, size: int) -> bytes:
    """Return the payload of a content header."""
    return b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + properties.encode()


def body_of(queue: str, number: int, padding: int) -> bytes:
    """Return a body that says which message it is."""
    return f"{queue}/{number}/".encode().ljust(padding, b".")


async def publish(
    uri: AmqpUri, queues: Sequence[tuple[str, Kind]], count: int, *, exchange: str, padding: int = 0
) -> None:
    """Publish messages to queues by an exchange, `count` to each, and wait for the confirms."""
    async with await connect(uri) as connection:
        channel = await connection.open_channel()
        confirms = await channel.confirm_select()
        for number in range(count):
            for queue, kind in queues:
                body = body_of(queue, number, padding)
                header = header_of(properties_of(number, kind), len(body))
                await channel.publish(exchange, queue, header, body)
                while confirms.unsettled > WINDOW:
                    await channel.activity()
                    channel.check_open()
        while confirms.unsettled:
            await channel.activity()
            channel.check_open()


@dataclass
class Arrived:
    """What came out of the queues of a broker.

    Attributes:
        numbers: Numbers of the messages in the order in which they came, by queue.
        changed: Queue and number of messages that are not as they were published.
    """

    numbers: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    changed: list[tuple[str, int]] = field(default_factory=list)


async def read_back(
    uri: AmqpUri,
    queues: Iterable[tuple[str, Kind]],
    *,
    exchange: str,
    padding: int = 0,
    expected: int,
) -> Arrived:
    """Take all messages of queues of our broker.

    Args:
        uri: Where it is.
        queues: The queues; a stream is read until all numbers came.
        exchange: Exchange that the messages were published to.
        padding: Length of their bodies.
        expected: Number of messages that were published to each.
    """
    arrived = Arrived()
    async with await connect(uri) as connection:
        for queue, kind in queues:
            channel = await connection.open_channel()
            await channel.set_prefetch(1000)
            arguments = table_of({"x-stream-offset": "first"}) if kind is Kind.STREAM else None
            deliveries = await channel.consume(queue, arguments)
            distinct: set[int] = set()
            while True:
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        batch = await deliveries.next_batch()
                except TimeoutError:
                    ready, _ = await channel.queue_counts(queue)
                    is_over = len(distinct) == expected if kind is Kind.STREAM else ready == 0
                    if is_over and not len(deliveries):
                        break
                    continue
                for each in batch:
                    name, number_text, *_ = each.body.split(b"/")
                    number = int(number_text)
                    arrived.numbers[queue].append(number)
                    distinct.add(number)
                    body = body_of(queue, number, padding)
                    header = header_of(properties_of(number, kind), len(body))
                    if kind is not Kind.STREAM and (
                        each.header != header
                        or each.body != body
                        or each.exchange != exchange
                        or each.routing_key != queue
                    ):
                        arrived.changed.append((name.decode(), number))
                channel.ack(batch[-1].tag, multiple=True)
            await channel.close()
    return arrived
