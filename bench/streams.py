"""How fast a stream is read by one consumer and by many, beside a queue that is drained.

    python -m bench.streams [--count 1000000] [--consumers 10]

A durable queue and a stream get the same persistent messages. One consumer drains the queue; then
one reads the whole stream, and then many do at once, each in a process of its own, with a
prefetch and acks. Every consumer must get every message once, in order, with its offset. The
server says how often it read and mapped its files for that.
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
from bench.consumer import ConsumeOrder, ConsumeResult, consume
from bench.errors import BenchError
from bench.our_server import start_our_server
from bench.process_stats import ServerProbe
from bench.publisher import PUBLISH_CHANNEL, PublishOrder, publish
from bench.worker import Counters, Worker
from bench.workers import Workers

QUEUE: Final = "drained"
STREAM: Final = "read"
TOTAL_RATIO_MIN: Final = 1.0
"""Bar: what many consumers of a stream get together, by what one of a queue gets."""
MAPPED_MAX: Final = 1.0
"""Bar: how often a segment is mapped while all of them follow each other."""
_CONFIRM_WINDOW: Final = 10_000
_FORGET_SECONDS_MAX: Final = 30
_LOOK_SECONDS: Final = 0.1
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """What some consumers of one queue got together.

    Attributes:
        title: What they are called in the report.
        messages_per_second: All of them together.
        lost: Messages that one of them did not get.
        windows_read: Reads of the log for them.
        segments_mapped: How often a part of a segment was mapped for them.
        rss_anon_bytes: The most that the server had meanwhile.
    """

    title: str
    messages_per_second: float
    lost: int
    windows_read: int
    segments_mapped: int
    rss_anon_bytes: int

    def describe(self) -> str:
        """Return a line for the report."""
        return (
            f"{self.title:<24}{self.messages_per_second:>12,.0f} msg/s   LOST {self.lost:,}   "
            f"windows read {self.windows_read:,}   segments mapped {self.segments_mapped:,}   "
            f"RssAnon {self.rss_anon_bytes / _MIB:,.0f} MiB"
        )


class StreamBench:
    """A server with a queue and a stream.

    Args:
        url: The server.
        pid: Its process.
        storage_path: Its data directory.
        count: Messages in each of the two; rounded up to whole blocks.
        body_bytes: Of each message.
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
        """Declare both and publish all messages, confirmed.

        Raises:
            BenchError: One was refused.
        """
        with Connection(self._url, PUBLISH_CHANNEL) as connection:
            connection.declare_queue(QUEUE, durable=True)
            connection.declare_queue(STREAM, True, text_table(x_queue_type="stream"))
            connection.close()
        for queue, order in self._orders.items():
            with Workers(_look_at_nothing) as workers:
                publisher = workers.start(publish, order, Counters())
                publisher.go()
                sent = workers.wait_for(publisher)
            if sent.confirmed != sent.published:
                raise BenchError(f"{sent.published - sent.confirmed} messages not confirmed")
            self._counts[queue] = sent.confirmed

    def segments(self) -> int:
        """Return how many segments the stream has."""
        segments: int = self._stats(STREAM)["segments"]
        return segments

    def read(self, title: str, queue: str, consumers: int, prefetch: int) -> Reading:
        """Let some consumers read all of a queue, each of them all of it.

        Raises:
            BenchError: A message was lost, repeated, or out of order.
        """
        arguments = text_table(x_stream_offset="first") if queue == STREAM else text_table()
        order = ConsumeOrder(
            self._url,
            queue,
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
            results = [_result_of(worker, probe) for worker in reading]
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
        """Wait until the server holds nothing that was read for the figure before this one."""
        deadline = time.monotonic() + _FORGET_SECONDS_MAX
        while (found := self._stats(queue))["window_bytes"]:
            if time.monotonic() > deadline:
                raise BenchError(f"{found['window_bytes']} bytes of windows are not given up")
            time.sleep(_LOOK_SECONDS)
        return found

    def _stats(self, queue: str) -> dict[str, int]:
        arguments = {"vhost": "/", "queue": queue, "after": "", "limit": 1}
        (found,) = ask(self._storage_path, "queues.stats", **arguments)["queues"]
        row: dict[str, int] = found
        return row


def _result_of(worker: Worker[ConsumeResult], probe: ServerProbe) -> ConsumeResult:
    while not worker.pipe.poll(_LOOK_SECONDS):
        probe.sample()
    return worker.take_result()


def _look_at_nothing() -> None:
    """Stand in for what is looked at while workers run."""


@click.command()
@click.option("--count", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--consumers", type=click.IntRange(2), default=10, show_default=True)
@click.option("--prefetch", type=click.IntRange(4), default=1000, show_default=True)
@click.option("--body-bytes", type=click.IntRange(32), default=128, show_default=True)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=None,
    help="Where the server keeps its data: a disk.  [default: the current directory]",
)
def main(count: int, consumers: int, prefetch: int, body_bytes: int, data_dir: Path | None) -> None:
    """Read a stream with one consumer and with many, beside a queue that one drains."""
    with (
        tempfile.TemporaryDirectory(prefix="streams-", dir=data_dir or Path.cwd()) as name,
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
    # The last segment still grows: it is read by copy.
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
