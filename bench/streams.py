"""Speed of one consumer and of many consumers of a stream, beside one consumer of a queue.

    python -m bench.streams [--count 1000000] [--consumers 10]

A durable queue and a stream get the same persistent messages. One consumer drains the queue. Then
one consumer reads the whole stream, and then many read it at once, each in a process of its own,
with a prefetch and acks. Every consumer must get every message once, in order, with its offset.
The server reports how often it read and mapped its files.
"""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from amqp_server.control.client import ask
from bench.amqp_frames import text_table
from bench.broker_url import BrokerUrl
from bench.connection import Connection
from bench.consumer import ConsumeOrder, consume
from bench.errors import BenchError
from bench.options import data_dir_option
from bench.our_server import start_our_server
from bench.process_stats import ServerProbe
from bench.publisher import PUBLISH_CHANNEL, PublishOrder, publish
from bench.worker import Counters
from bench.workers import Workers, run_alone

QUEUE: Final = "drained"
STREAM: Final = "read"
TOTAL_RATIO_MIN: Final = 1.0
"""Bar: rate of many consumers of a stream together, divided by the rate of a queue's consumer."""
MAPPED_MAX: Final = 1.0
"""Bar: mappings of each sealed segment for all consumers of the stream together."""
_CONFIRM_WINDOW: Final = 10_000
_FORGET_SECONDS_MAX: Final = 30
_LOOK_SECONDS: Final = 0.1
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """Figures of the consumers of one queue.

    Attributes:
        title: Name of the consumers in the report.
        messages_per_second: Rate of all consumers together.
        lost: Messages that a consumer did not get, of all consumers.
        windows_read: Reads of the log for these consumers.
        segments_mapped: How often the server mapped a part of a segment for these consumers.
        rss_anon_bytes: Largest RssAnon of the server during the run.
    """

    title: str
    messages_per_second: float
    lost: int
    windows_read: int
    segments_mapped: int
    rss_anon_bytes: int

    def describe(self) -> str:
        """Return the line of the report."""
        return (
            f"{self.title:<24}{self.messages_per_second:>12,.0f} msg/s   LOST {self.lost:,}   "
            f"windows read {self.windows_read:,}   segments mapped {self.segments_mapped:,}   "
            f"RssAnon {self.rss_anon_bytes / _MIB:,.0f} MiB"
        )


class StreamBench:
    """A server with a queue and a stream.

    Args:
        url: Address of the server.
        pid: Id of the server's process.
        storage_path: Data directory of the server.
        count: Messages in the queue, and in the stream; rounded up to whole blocks.
        body_bytes: Size of each body.
    """

    def __init__(
        self, url: BrokerUrl, pid: int | None, storage_path: Path, count: int, body_bytes: int
    ) -> None:
        self._url = url
        self._pid = pid
        self._storage_path = storage_path
        self._orders = {
            queue: PublishOrder(
                url,
                queue,
                body_bytes=body_bytes,
                persistent=True,
                count=count,
                confirm_window=_CONFIRM_WINDOW,
            )
            for queue in (QUEUE, STREAM)
        }
        self._counts: dict[str, int] = {}

    def fill(self) -> None:
        """Declare the queue and the stream, and publish all messages with confirms.

        Raises:
            BenchError: The server refused a message.
        """
        with Connection(self._url, PUBLISH_CHANNEL) as connection:
            connection.declare_queue(QUEUE, durable=True)
            connection.declare_queue(STREAM, True, text_table(x_queue_type="stream"))
            connection.close()
        for queue, order in self._orders.items():
            sent = run_alone(ServerProbe(None), publish, order, Counters())
            if sent.confirmed != sent.published:
                raise BenchError(f"{sent.published - sent.confirmed} messages not confirmed")
            self._counts[queue] = sent.confirmed

    def segments(self) -> int:
        """Return how many segments the stream has."""
        segments: int = self._stats(STREAM)["segments"]
        return segments

    def read(self, title: str, queue: str, consumers: int, prefetch: int) -> Reading:
        """Read a queue or stream with some consumers; each consumer gets all messages.

        Raises:
            BenchError: A message was lost, repeated, or out of order.
        """
        arguments = text_table(x_stream_offset="first") if queue == STREAM else text_table()
        order = ConsumeOrder(
            self._url,
            (queue,),
            self._orders[queue].block_messages,
            prefetch=prefetch,
            ack_every=max(1, prefetch // 4),
            arguments=arguments,
        )
        before = self._until_forgotten(queue)
        probe = ServerProbe(self._pid)
        with Workers(probe.sample) as workers:
            reading = []
            for _ in range(consumers):
                counters = Counters()
                counters.expected.value = self._counts[queue]
                reading.append(workers.start(consume, order, counters))
            for worker in reading:
                worker.go()
            results = [workers.wait_for(worker) for worker in reading]
        after = self._stats(queue)
        received = sum(result.received for result in results)
        start_ns = min(result.start_ns for result in results)
        end_ns = max(result.end_ns for result in results)
        return Reading(
            title,
            messages_per_second=received / max((end_ns - start_ns) / 1e9, 1e-9),
            lost=consumers * self._counts[queue] - received,
            windows_read=after["windows_read"] - before["windows_read"],
            segments_mapped=after["segments_mapped"] - before["segments_mapped"],
            rss_anon_bytes=probe.rss_anon_bytes_max or 0,
        )

    def _until_forgotten(self, queue: str) -> dict[str, int]:
        """Wait until the server has released the windows of the run before this one."""
        deadline = time.monotonic() + _FORGET_SECONDS_MAX
        while (found := self._stats(queue))["window_bytes"]:
            if time.monotonic() > deadline:
                raise BenchError(f"{found['window_bytes']} bytes of windows are not released")
            time.sleep(_LOOK_SECONDS)
        return found

    def _stats(self, queue: str) -> dict[str, int]:
        arguments = {"vhost": "/", "queue": queue, "after": "", "limit": 1}
        (found,) = ask(self._storage_path, "queues.stats", **arguments)["queues"]
        row: dict[str, int] = found
        return row


@click.command(context_settings={"show_default": True})
@click.option("--count", type=click.IntRange(1), default=1_000_000, help="Messages of each queue.")
@click.option("--consumers", type=click.IntRange(2), default=10, help="Consumers of the stream.")
@click.option("--prefetch", type=click.IntRange(4), default=1000, help="Prefetch of each consumer.")
@click.option("--body-bytes", type=click.IntRange(32), default=128, help="Size of each body.")
@data_dir_option("the server's data")
def main(count: int, consumers: int, prefetch: int, body_bytes: int, data_dir: Path) -> None:
    """Read a stream with one consumer and with many, beside one consumer of a queue."""
    with (
        tempfile.TemporaryDirectory(prefix="streams-", dir=data_dir) as name,
        start_our_server("ours", Path(name)) as server,
    ):
        bench = StreamBench(server.url, server.pid, Path(name) / "data", count, body_bytes)
        try:
            bench.fill()
            segments = bench.segments()
            queue = bench.read("queue, 1 consumer", QUEUE, 1, prefetch)
            click.echo(queue.describe())
            one = bench.read("stream, 1 consumer", STREAM, 1, prefetch)
            click.echo(one.describe())
            many = bench.read(f"stream, {consumers} consumers", STREAM, consumers, prefetch)
            click.echo(many.describe())
        except BenchError as error:
            raise click.ClickException(str(error)) from error
    _judge(queue, one, many, segments)
    if queue.lost or one.lost or many.lost:
        raise click.ClickException("messages were lost: the figures do not count")


def _judge(queue: Reading, one: Reading, many: Reading, segments: int) -> None:
    alone = one.messages_per_second / queue.messages_per_second
    total = many.messages_per_second / queue.messages_per_second
    # The server copies from the last segment, which still grows, and does not map it.
    mapped = (one.segments_mapped + many.segments_mapped) / max(segments - 1, 1)
    windows = many.windows_read / max(one.windows_read, 1)
    click.echo(f"one of the stream / one of the queue    {alone:.2f}")
    click.echo(
        f"all of the stream / one of the queue    {total:.2f}   "
        f"bar {TOTAL_RATIO_MIN:.1f}: {_verdict(reached=total >= TOTAL_RATIO_MIN)}"
    )
    click.echo(
        f"mappings of each sealed segment         {mapped:.2f}   "
        f"bar {MAPPED_MAX:.1f}: {_verdict(reached=mapped <= MAPPED_MAX)}"
    )
    click.echo(f"windows read for all / for one          {windows:.2f}")


def _verdict(*, reached: bool) -> str:
    return "reached" if reached else "MISSED"


if __name__ == "__main__":
    main()
