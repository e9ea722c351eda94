"""Equal publishers in one process, each with a connection and a queue of its own."""

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
class EqualPublishOrder:
    """What the publishers are to do.

    Attributes:
        url: The broker.
        queues: Queues that are there; each gets one publisher.
        body_bytes: Size of each body.
        seconds: How long to publish.
    """

    url: BrokerUrl
    queues: tuple[str, ...]
    body_bytes: int
    seconds: float


class _Publisher:
    """One connection and what of its current block is not sent yet."""

    def __init__(self, connection: Connection, queue: str, body_bytes: int) -> None:
        self.connection = connection
        self._blocks = 0
        self._block = PublishBlock(PUBLISH_CHANNEL, queue, body_bytes=body_bytes)
        self._unsent = memoryview(b"")

    @property
    def published(self) -> int:
        return self._blocks * self._block.block_messages

    def send(self, now_ns: int) -> None:
        """Send what the socket takes."""
        if not self._unsent:
            self._unsent = memoryview(self._block.encode(self._blocks, now_ns))
            self._blocks += 1
        try:
            sent = self.connection.socket.send(self._unsent)
        except BlockingIOError:
            return
        self._unsent = self._unsent[sent:]

    def finish(self) -> None:
        """Send the rest of the current block, and wait until the broker has handled all."""
        self.connection.socket.setblocking(True)
        self.connection.send(bytes(self._unsent))
        self.connection.close_channel()
        self.connection.close()


def publish_equally(
    start_line: StartLine, order: EqualPublishOrder, counters: Counters
) -> PublishResult:
    """Carry out an order, in a process of its own.

    Raises:
        OSError: The broker went away.
        BenchError: It closed a connection, or let none send for STALL_SECONDS_MAX.
    """
    with ExitStack() as stack:
        publishers = []
        for queue in order.queues:
            connection = stack.enter_context(Connection(order.url, PUBLISH_CHANNEL))
            publishers.append(_Publisher(connection, queue, order.body_bytes))
        start_line.wait()
        start_ns = time.monotonic_ns()
        with selectors.DefaultSelector() as selector:
            for each in publishers:
                each.connection.socket.setblocking(False)
                selector.register(each.connection.socket, selectors.EVENT_WRITE, each)
            _publish_until(selector, start_ns + int(order.seconds * 1e9))
        for each in publishers:
            each.finish()
        counters.published.value = published = sum(each.published for each in publishers)
        return PublishResult(
            published=published,
            confirmed=published,
            nacked=0,
            start_ns=start_ns,
            end_ns=time.monotonic_ns(),
            cpu_seconds=start_line.cpu_seconds(),
        )


def _publish_until(selector: selectors.BaseSelector, end_ns: int) -> None:
    moved_ns = now_ns = time.monotonic_ns()
    while now_ns < end_ns:
        writable = selector.select(min(1.0, (end_ns - now_ns) / 1e9))
        now_ns = time.monotonic_ns()
        for key, _ in writable:
            key.data.send(now_ns)
            moved_ns = now_ns
        if now_ns - moved_ns > STALL_SECONDS_MAX * 1e9:
            raise BenchError(f"no publisher could send for {STALL_SECONDS_MAX} s")
