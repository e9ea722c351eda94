"""Twenty publishers in one process: each sends whenever its socket takes something."""

import selectors
import time
from contextlib import ExitStack
from dataclasses import dataclass

from bench.broker_url import BrokerUrl
from bench.connection import STALL_SECONDS_MAX, Connection
from bench.errors import BenchError
from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL, PublishResult
from bench.worker import Counters, StartLine


@dataclass(frozen=True, slots=True)
class SoakPublishOrder:
    """What the publishers are to do.

    Attributes:
        url: The broker.
        queue: The one queue that all publish to.
        body_bytes: Size of each body.
        seconds: How long to publish.
        publishers: How many, each with a connection of its own.
    """

    url: BrokerUrl
    queue: str
    body_bytes: int
    seconds: float
    publishers: int


class _SoakPublisher:
    """One connection and what of its current block is not sent yet.

    A publisher's blocks are numbered from 0 without a gap, so `blocks` says what it published.
    """

    def __init__(self, connection: Connection, order: SoakPublishOrder, publisher: int) -> None:
        self.connection = connection
        self.blocks = 0
        self._block = PublishBlock(
            PUBLISH_CHANNEL, order.queue, body_bytes=order.body_bytes, publisher=publisher
        )
        self._unsent = memoryview(b"")

    @property
    def published(self) -> int:
        return self.blocks * self._block.block_messages

    def send(self, now_ns: int) -> None:
        """Send what the socket takes."""
        if not self._unsent:
            self._unsent = memoryview(self._block.encode(self.blocks, now_ns))
            self.blocks += 1
        try:
            sent = self.connection.socket.send(self._unsent)
        except BlockingIOError:
            return
        self._unsent = self._unsent[sent:]

    def finish(self) -> None:
        """Send the rest of the current block, and wait until the broker has handled all."""
        self.connection.socket.setblocking(True)
        self.connection.socket.sendall(self._unsent)
        self.connection.close_channel()
        self.connection.close()


def soak_publish(
    start_line: StartLine, order: SoakPublishOrder, counters: Counters
) -> PublishResult:
    """Carry out an order, in a process of its own.

    Raises:
        OSError: The broker went away.
        BenchError: It closed a connection, or let none send for STALL_SECONDS_MAX.
    """
    with ExitStack() as stack:
        publishers = []
        for publisher in range(order.publishers):
            connection = stack.enter_context(Connection(order.url, PUBLISH_CHANNEL))
            publishers.append(_SoakPublisher(connection, order, publisher))
        start_line.wait()
        start_ns = time.monotonic_ns()
        _publish_until(publishers, start_ns + int(order.seconds * 1e9), counters)
        for each in publishers:
            each.finish()
        published = sum(each.published for each in publishers)
        return PublishResult(
            published=published,
            confirmed=published,
            nacked=0,
            start_ns=start_ns,
            end_ns=time.monotonic_ns(),
            cpu_seconds=start_line.cpu_seconds(),
        )


def _publish_until(publishers: list[_SoakPublisher], end_ns: int, counters: Counters) -> None:
    with selectors.DefaultSelector() as selector:
        for each in publishers:
            each.connection.socket.setblocking(False)
            selector.register(each.connection.socket, selectors.EVENT_WRITE, each)
        moved_ns = now_ns = time.monotonic_ns()
        while now_ns < end_ns:
            writable = selector.select(min(1.0, (end_ns - now_ns) / 1e9))
            now_ns = time.monotonic_ns()
            for key, _ in writable:
                key.data.send(now_ns)
                moved_ns = now_ns
            if now_ns - moved_ns > STALL_SECONDS_MAX * 1e9:
                raise BenchError(f"no publisher could send for {STALL_SECONDS_MAX} s")
            counters.published.value = sum(each.published for each in publishers)
