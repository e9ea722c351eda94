"""A publisher's process: one connection that sends as fast as it can, or at a fixed rate."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.broker_url import BrokerUrl
from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.errors import BenchError
from bench.pace import Pace
from bench.publish_block import PublishBlock
from bench.worker import Counters, StartLine

PUBLISH_CHANNEL: Final = 1

_TICK_SECONDS: Final = 0.001


@dataclass(frozen=True, slots=True)
class PublishOrder:
    """Instructions for one publisher. It sends whole blocks, so `count` is rounded up.

    Attributes:
        url: The broker.
        queue: Name of an existing queue, the routing key in the default exchange.
        body_bytes: Size of each body.
        persistent: Whether the messages are persistent.
        count: Messages to send; None to send for `seconds`.
        seconds: How long to send if there is no count.
        confirm_window: Most publishes without an answer; 0 for no confirms.
        rate_per_second: Messages a second; 0 for as fast as the broker takes them.
        exchange: Name of an existing exchange; "" for the default exchange.
        routing_keys: Routing keys of the messages in turn, all of one length; `queue` if empty.
    """

    url: BrokerUrl
    queue: str
    body_bytes: int
    persistent: bool = False
    count: int | None = None
    seconds: float = 0.0
    confirm_window: int = 0
    rate_per_second: int = 0
    exchange: str = ""
    routing_keys: tuple[str, ...] = ()

    @property
    def block_messages(self) -> int:
        """Messages in a block: those of 64 KiB, of a quarter of the window, or of one tick."""
        if self.rate_per_second:
            return max(1, round(self.rate_per_second * _TICK_SECONDS))
        most = self.encode_block(None).block_messages
        return min(most, max(1, self.confirm_window // 4)) if self.confirm_window else most

    def encode_block(self, block_messages: int | None) -> PublishBlock:
        """Encode this order's publishes.

        Args:
            block_messages: Messages in a block, as in `PublishBlock`.
        """
        return PublishBlock(
            PUBLISH_CHANNEL,
            self.queue,
            body_bytes=self.body_bytes,
            persistent=self.persistent,
            block_messages=block_messages,
            exchange=self.exchange,
            routing_keys=self.routing_keys,
        )


@dataclass(frozen=True, slots=True)
class PublishResult:
    """Publishes of one process.

    Attributes:
        published: Messages sent.
        confirmed: Messages that the broker acknowledged; all of them if none are to be confirmed.
        nacked: Messages that the broker refused.
        start_ns: CLOCK_MONOTONIC before the first byte.
        end_ns: CLOCK_MONOTONIC when the broker had handled all: at the last confirm, or at the
            answer to closing the channel. Bytes that wait in a socket do not count as published.
        cpu_seconds: CPU that the process used.
        late_ns_max: Longest delay of a write at a fixed rate. A large one means a broker that
            reads slowly, or a machine that is too busy to keep time.
        confirm_latencies_ns: At a fixed rate with confirms, the time from the moment when a block
            was due to the answer to all of it.
    """

    published: int
    confirmed: int
    nacked: int
    start_ns: int
    end_ns: int
    cpu_seconds: float
    late_ns_max: int = 0
    confirm_latencies_ns: tuple[int, ...] = ()


def publish(start_line: StartLine, order: PublishOrder, counters: Counters) -> PublishResult:
    """Publish in a process of its own.

    Raises:
        OSError: The broker went away.
        BenchError: The broker read or sent nothing for STALL_SECONDS_MAX, or sent something
            unexpected.
    """
    block = order.encode_block(order.block_messages)
    with Connection(order.url, PUBLISH_CHANNEL) as connection:
        window = ConfirmWindow() if order.confirm_window else None
        if window:
            connection.select_confirms()
        sharpen_timers()
        start_line.wait()
        start_ns = time.monotonic_ns()
        pace = Pace(connection, block, window)
        if order.rate_per_second:
            count = order.count or int(order.seconds * order.rate_per_second)
            pace.publish(count, order.rate_per_second, counters)
        elif window:
            _publish_confirmed(connection, block, order, counters, window)
        else:
            _publish_freely(connection, block, order, counters)
        published = counters.published.value
        end_ns = time.monotonic_ns()
        if not window:
            connection.close_channel()
            end_ns = time.monotonic_ns()
        connection.close()
        return PublishResult(
            published=published,
            confirmed=window.confirmed if window else published,
            nacked=window.nacked if window else 0,
            start_ns=start_ns,
            end_ns=end_ns,
            cpu_seconds=start_line.cpu_seconds(),
            late_ns_max=pace.late_ns_max,
            confirm_latencies_ns=tuple(pace.confirm_latencies_ns),
        )


def _blocks(order: PublishOrder, block_messages: int) -> Iterator[tuple[int, int]]:
    """Return number and stamp of each block to send, until the count or the time is reached."""
    block = 0
    if order.count is not None:
        for block in range(-(-order.count // block_messages)):
            yield block, time.monotonic_ns()
        return
    end_ns = time.monotonic_ns() + int(order.seconds * 1e9)
    while (now_ns := time.monotonic_ns()) < end_ns:
        yield block, now_ns
        block += 1


def _publish_freely(
    connection: Connection, block: PublishBlock, order: PublishOrder, counters: Counters
) -> None:
    send = connection.send
    for number, now_ns in _blocks(order, block.block_messages):
        send(block.encode(number, now_ns))
        counters.published.value = (number + 1) * block.block_messages


def _publish_confirmed(
    connection: Connection,
    block: PublishBlock,
    order: PublishOrder,
    counters: Counters,
    window: ConfirmWindow,
) -> None:
    published = 0
    room = order.confirm_window - block.block_messages
    for number, now_ns in _blocks(order, block.block_messages):
        while published - window.settled > room:
            window.feed(connection.receive())
        connection.send(block.encode(number, now_ns))
        published += block.block_messages
        counters.published.value = published
    while window.settled < published:
        window.feed(connection.receive())
    if window.settled > published:
        raise BenchError(f"{window.settled} confirms for {published} publishes")


def sharpen_timers() -> None:
    """Make this process wake up in time from a short sleep, if the kernel allows it."""
    # Linux wakes a sleeping process up to 50 us late to save power. That is as long as the
    # latency of a fast broker.
    slack = Path("/proc/self/timerslack_ns")
    try:
        slack.write_text("1")
    except OSError:
        return
