"""The clients of one stream on a real server: a publisher, and members of groups."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from pamqp.commands import Basic, Channel, Queue

from tests.amqp_client import AmqpClient, Message, connect
from tests.servers import RunningServer


class StreamClients:
    """Clients of one stream, whose sockets are closed at the end.

    Args:
        server: Runs.
        name: Of the stream; it is declared by the first publish.
    """

    def __init__(self, server: RunningServer, name: str) -> None:
        self.server = server
        self.name = name
        self._clients: list[AmqpClient] = []

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close what is open."""
        for client in self._clients:
            client.socket.close()

    def connect(self) -> AmqpClient:
        """Return a client with channel 1 open."""
        client = connect(self.server.address)
        self._clients.append(client)
        client.open_channel()
        return client

    def publish(self, count: int, first: int = 0) -> None:
        """Publish numbered messages, and return when they are on the disk."""
        client = connect(self.server.address)
        with client:
            client.open_channel(confirms=True)
            client.declare(self.name, arguments={"x-queue-type": "stream"})
            for number in range(first, first + count):
                client.publish(b"%d" % number, self.name)
            client.expect_confirmed()
            client.close()

    def member(self, group: str, prefetch: int = 100, **arguments: object) -> AmqpClient:
        """Return a new consumer of a group; underscores stand for dashes in arguments."""
        client = self.connect()
        self.join(client, group, prefetch, **arguments)
        return client

    def join(
        self, client: AmqpClient, group: str, prefetch: int = 100, **arguments: object
    ) -> None:
        """Begin to consume as a member."""
        client.call(Basic.Qos(prefetch_count=prefetch), Basic.QosOk)
        client.call(self.consume(group, **arguments), Basic.ConsumeOk)

    def refusal(self, group: object, **arguments: object) -> str:
        """Return why a consumer is refused, with 406."""
        client = self.connect()
        client.call(Basic.Qos(prefetch_count=10), Basic.QosOk)
        client.send(self.consume(group, **arguments))
        return client.expect_channel_close(406).reply_text

    def consume(self, group: object, **arguments: object) -> Basic.Consume:
        """Return the method."""
        table: Any = {f"x-{k.replace('_', '-')}": v for k, v in arguments.items()}
        table["x-consumer-group"] = group
        return Basic.Consume(queue=self.name, arguments=table)

    def expect_nothing(self, client: AmqpClient) -> None:
        """Check that no delivery is on its way: an answer would come behind it."""
        client.call(Queue.Declare(queue=self.name, passive=True), Queue.DeclareOk)


def offset_of(message: Message) -> int:
    """Return the offset that a delivery says."""
    offset = header_of(message, "x-stream-offset")
    assert isinstance(offset, int)
    return offset


def header_of(message: Message, name: str) -> object:
    """Return a header of a delivery, or None."""
    return (message.properties.headers or {}).get(name)


def take(client: AmqpClient, *offsets: int) -> list[Message]:
    """Return the next deliveries, which must be these."""
    messages = [client.expect_delivery() for _ in offsets]
    assert [offset_of(message) for message in messages] == list(offsets)
    return messages


def finish(client: AmqpClient) -> None:
    """Close the channel, and return when what it had is given back."""
    client.call(Channel.Close(200, "", 0, 0), Channel.CloseOk)
