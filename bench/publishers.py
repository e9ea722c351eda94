"""The process of several publishers: each sends whenever its socket takes bytes."""

import selectors
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.broker_url import BrokerUrl
from bench.connection import STALL_SECONDS_MAX, Connection
from bench.errors import BenchError
from bench.publish_block import PublishBlock
from bench.publisher import PUBLISH_CHANNEL, PublishResult
from bench.worker import Counters, StartLine


@dataclass(frozen=True, slots=True)
class PublishersOrder:
    """Instructions for several publishers.

    Attributes:
        url: The broker.
        queues: Names of existing queues; each gets one publisher with a connection of its own. If
            one name occurs several times, its publishers are numbered from 0 in their messages.
        body_bytes: Size of each body.
        seconds: How long to publish.
    """

    url: BrokerUrl
    queues: tuple[str, ...]
    body_bytes: int
    seconds: float

    @property
    def block_messages(self) -> int:
        """Messages in a block of each publisher."""
        return self.encode_block(0).block_messages

    def encode_block(self, at: int) -> PublishBlock:
        """Encode the publishes for the queue at this place of `queues`."""
        queue = self.queues[at]
        publisher = self.queues[:at].count(queue)
        return PublishBlock(PUBLISH_CHANNEL, queue, body_bytes=self.body_bytes, publisher=publisher)


class _Publisher:
    """One connection and the unsent rest of its current block.

    The blocks of a publisher are numbered from 0 without a gap.
    """

    def __init__(self, connection: Connection, block: PublishBlock) -> None:
        self.connection = connection
        self._block = block
        self._blocks = 0
        self._unsent = memoryview(b"")

    @property
    def published(self) -> int:
        return self._blocks * self._block.block_messages

    def send(self, now_ns: int) -> None:
        """Send as much as the socket takes."""
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


def publish_side_by_side(
    start_line: StartLine, order: PublishersOrder, counters: Counters
) -> PublishResult:
    """Publish over several connections in a process of its own.

    Raises:
        OSError: The broker went away.
        BenchError: The broker closed a connection, or read nothing for STALL_SECONDS_MAX.
    """
    with ExitStack() as stack:
        publishers = []
        for at in range(len(order.queues)):
            connection = stack.enter_context(Connection(order.url, PUBLISH_CHANNEL))
            publishers.append(_Publisher(connection, order.encode_block(at)))
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


def _publish_until(publishers: Sequence[_Publisher], end_ns: int, counters: Counters) -> None:
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
