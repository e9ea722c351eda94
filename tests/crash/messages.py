"""Publishes and takes numbered messages, for tests of what survives."""

import signal

from tests.amqp_client import PERSISTENT, AmqpClient, connect
from tests.servers import RunningServer

Flags = list[tuple[bytes, bool]]


def channel_to(server: RunningServer) -> AmqpClient:
    """Return a client with channel 1 open and in confirm mode."""
    client = connect(server.address)
    client.open_channel(confirms=True)
    return client


def publish_confirmed(
    client: AmqpClient, queue: str, numbers: range, *, size: int = 0, persistent: bool = True
) -> None:
    """Publish numbered messages, and return when they are confirmed.

    Args:
        client: In confirm mode.
        queue: Routing key of the default exchange.
        numbers: What the bodies say.
        size: Bytes that the bodies are filled up to, with full stops.
        persistent: Whether they ask to survive.
    """
    properties = PERSISTENT if persistent else type(PERSISTENT)(delivery_mode=1)
    for number in numbers:
        client.publish(str(number).encode().ljust(size, b"."), queue, properties=properties)
    client.expect_confirmed()


def drain(client: AmqpClient, queue: str) -> Flags:
    """Take everything that is ready; return bodies and redelivered flags in order."""
    taken = []
    while (message := client.get(queue)) is not None:
        taken.append((message.body, message.redelivered))
    return taken


def flags(numbers: range, *, redelivered: bool) -> Flags:
    """Return what `drain` returns for numbered messages."""
    return [(str(number).encode(), redelivered) for number in numbers]


def stop_cleanly(server: RunningServer, *clients: AmqpClient) -> None:
    """Stop with SIGTERM while clients are connected, who answer as clients do."""
    server.signal(signal.SIGTERM)
    for client in clients:
        assert client.await_connection_close().reply_code == 320
    assert server.wait() == 0
