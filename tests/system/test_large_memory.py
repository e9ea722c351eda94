"""How much memory one large message takes that consumers do not read, in bodies of it."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pamqp.commands import Queue

from tests.amqp_client import AmqpClient, connect
from tests.conftest import StartServer
from tests.servers import RunningServer

BODY = bytes(range(256)) * (24 << 12)
"""24 MiB: much more than all else that the server has in memory."""
CONSUMERS = 20
BEHIND = b"behind it"


class Ways:
    """A server, a publisher with confirms, and consumers that read nothing.

    Args:
        server: The server's process.
        stack: Closes the clients.
    """

    def __init__(self, server: RunningServer, stack: ExitStack) -> None:
        self.publisher, *self.consumers = [
            stack.enter_context(connect(server.address)) for _ in range(1 + CONSUMERS)
        ]
        self.publisher.open_channel(confirms=True)
        for consumer in self.consumers:
            consumer.open_channel()
        self._server = server
        self._before_bytes = server.peak_bytes

    @property
    def bodies(self) -> float:
        """The most memory that the server has had since then."""
        return (self._server.peak_bytes - self._before_bytes) / len(BODY)

    def publish(self, routing_key: str, exchange: str = "") -> None:
        for body in (BODY, BEHIND):
            self.publisher.publish(body, routing_key, exchange)
        self.publisher.expect_confirmed()

    def expect_begun(self) -> None:
        """Return when the first octets have reached each consumer, which leaves them there."""
        for consumer in self.consumers:
            assert consumer.socket.recv(1, socket.MSG_PEEK)


def expect_whole(consumer: AmqpClient) -> None:
    assert consumer.expect_delivery().body == BODY
    assert consumer.expect_delivery().body == BEHIND


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_one_body_for_all_consumers_of_a_fanout(
    start_server: StartServer, stack: ExitStack
) -> None:
    ways = Ways(start_server("--ring-bytes", "64MiB"), stack)
    for number, consumer in enumerate(ways.consumers):
        consumer.declare(f"q{number}", durable=False)
        consumer.call(Queue.Bind(queue=f"q{number}", exchange="amq.fanout"), Queue.BindOk)
        consumer.consume(f"q{number}")

    ways.publish("", "amq.fanout")
    ways.expect_begun()

    assert ways.bodies < 2
    expect_whole(ways.consumers[0])
    expect_whole(ways.consumers[-1])


def test_one_body_for_all_consumers_of_a_stream_that_read_it_from_the_log(
    start_server: StartServer, stack: ExitStack
) -> None:
    ways = Ways(start_server("--ring-bytes", "64KiB", "--ring-bytes-total", "1MiB"), stack)
    ways.publisher.declare("s", arguments={"x-queue-type": "stream"})
    ways.publish("s")
    for consumer in ways.consumers:
        # The answer is before the deliveries, which stay unread.
        consumer.consume("s", prefetch=10, arguments={"x-stream-offset": "first"})
    ways.expect_begun()

    assert ways.bodies < 2
    expect_whole(ways.consumers[0])
    expect_whole(ways.consumers[-1])
