"""Declares streams, fills them and reads them from an offset."""

import struct
from collections.abc import Mapping
from typing import Any, Final

from pamqp.commands import Basic, Channel, Tx

from tests.amqp_client import AmqpClient, Message
from tests.conformance.consuming import prefetch
from tests.conformance.typed_fields import Typed, encode_table

PUBLISHING_CHANNEL: Final = 999
FIRST: Final = Typed("S", "first")
PREFETCH: Final = 1000


def declare_stream(client: AmqpClient, name: str, **arguments: Any) -> None:  # noqa: ANN401
    """Declare a stream; `max_age="1h"` is the argument `x-max-age`."""
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    client.declare(name, arguments={"x-queue-type": "stream", **given})


def fill_stream(client: AmqpClient, name: str, count: int, *, first: int = 0) -> None:
    """Publish the messages `0`, `1`, ... each of which is a chunk of its own in RabbitMQ."""
    client.open_channel(PUBLISHING_CHANNEL, confirms=True)
    for number in range(first, first + count):
        client.publish(b"%d" % number, name, channel=PUBLISHING_CHANNEL)
        client.expect_confirmed(PUBLISHING_CHANNEL)
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, PUBLISHING_CHANNEL)


def fill_stream_at_once(client: AmqpClient, name: str, count: int) -> None:
    """Publish the messages `0`, `1`, ... with one commit, which RabbitMQ stores in few chunks."""
    client.open_channel(PUBLISHING_CHANNEL)
    client.call(Tx.Select(), Tx.SelectOk, PUBLISHING_CHANNEL)
    for number in range(count):
        client.publish(b"%d" % number, name, channel=PUBLISHING_CHANNEL)
    client.call(Tx.Commit(), Tx.CommitOk, PUBLISHING_CHANNEL)
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk, PUBLISHING_CHANNEL)


def send_consume(
    client: AmqpClient,
    queue: str,
    arguments: Mapping[str, Typed] | None = None,
    *,
    tag: str = "",
    no_ack: bool = False,
    exclusive: bool = False,
    channel: int = 1,
) -> None:
    """Send a basic.consume with arguments of exactly these types."""
    head = struct.pack(">IH", Basic.Consume.index, 0)
    names = b"".join(bytes([len(text)]) + text.encode() for text in (queue, tag))
    flags = bytes([(no_ack << 1) | (exclusive << 2)])
    client.send_method(head + names + flags + encode_table(arguments or {}), channel)


def read_from(
    client: AmqpClient,
    queue: str,
    start: Typed | None,
    *,
    count: int = PREFETCH,
    tag: str = "",
    channel: int = 1,
    **arguments: Typed,
) -> str:
    """Begin to consume at a place, `count` unanswered at most, and return the consumer's tag."""
    prefetch(client, count, channel=channel)
    given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    if start is not None:
        given["x-stream-offset"] = start
    send_consume(client, queue, given, tag=tag, channel=channel)
    answered = client.expect(Basic.ConsumeOk, channel).consumer_tag
    assert answered
    return answered


def offset_of(message: Message) -> int:
    """Return the offset that a delivery says it has."""
    headers = message.properties.headers
    assert headers is not None
    offset = headers["x-stream-offset"]
    assert isinstance(offset, int)
    return offset


def expect_offsets(client: AmqpClient, count: int, channel: int = 1) -> list[int]:
    """Return the offsets of the next deliveries, whose bodies say the same number."""
    messages = [client.expect_delivery(channel) for _ in range(count)]
    offsets = [offset_of(message) for message in messages]
    assert [message.body for message in messages] == [b"%d" % offset for offset in offsets]
    return offsets


def ack_up_to(client: AmqpClient, tag: int, channel: int = 1) -> None:
    """Acknowledge all deliveries up to a tag."""
    client.send(Basic.Ack(delivery_tag=tag, multiple=True), channel)


def whole_seconds(moment: float) -> Typed:
    """Return a moment as a field value."""
    return Typed("T", int(moment))
