"""Time of the start of a server with many messages until it listens, and its memory then."""

import asyncio
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import Final

import click

from amqp_server.protocol.field_values import FieldValue
from amqp_server.protocol.table_json import table_to_json
from appendlog import Append, Log, LogIdentity, LogOptions, encode_chunk, encode_message
from appendlog.files.descriptors import Descriptors
from bench.options import data_dir_option
from bench.our_server import start_our_server
from bench.process_stats import ServerProbe
from bench.storage.comparison import show_bar
from metadata.document import Document
from metadata.names import log_directory
from metadata.store import MetadataStore

SECONDS_MAX: Final = 3.0
RSS_BYTES_MAX: Final = 500_000_000
QUEUE_MS_MAX: Final = 1.0
_PERSISTENT: Final = 1
_HAS_PRIORITY: Final = 8
_PLAIN_PROPERTIES: Final = bytes.fromhex("100002")
_PRIORITY_PROPERTIES: Final = bytes.fromhex("180002")
_BATCH: Final = 1000
_CHUNKS_AT_ONCE: Final = 8


@click.command()
@click.option("--queues", type=click.IntRange(1), default=100, help="Number of queues.")
@click.option(
    "--messages", type=click.IntRange(0), default=1_000_000, help="Messages of all queues."
)
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Size of each body.")
@click.option("--priorities", is_flag=True, help="Priority queues with ten priorities.")
@click.option("--killed", is_flag=True, help="Leave the logs as after a crash.")
@click.option("--rounds", type=click.IntRange(1), default=3, help="Starts; the fastest one counts.")
@data_dir_option("the server's data")
def benchmark(
    queues: int,
    messages: int,
    body_bytes: int,
    priorities: bool,
    killed: bool,
    rounds: int,
    data_dir: Path,
) -> None:
    """Start a server with many messages, beside a start with an empty directory."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        empty, full = Path(name) / "empty", Path(name) / "full"
        empty.mkdir()
        full.mkdir()
        _start(full)  # creates an empty data directory
        size_bytes = asyncio.run(
            _make_data(full / "data", queues, messages, body_bytes, priorities, killed)
        )
        beside = min(_start(empty)[0] for _ in range(rounds))
        starts = [_start(full, is_killed=killed) for _ in range(rounds)]
        seconds, rss_bytes = min(starts)
        kind = "priority" if priorities else "plain"
        click.echo(
            f"opening {queues:,} queues, {messages:,} {kind} messages, {size_bytes / 1e6:,.0f} MB"
            f"{', killed' if killed else ''}: {seconds:.2f} s to listening, RssAnon "
            f"{rss_bytes / 1e6:.0f} MB; an empty directory {beside:.2f} s"
        )
        queue_ms = 1e3 * (seconds - beside) / queues
        for bar, is_reached in (
            (f"{SECONDS_MAX:.0f} s", seconds < SECONDS_MAX),
            (f"{RSS_BYTES_MAX // 10**6} MB", rss_bytes < RSS_BYTES_MAX),
            (f"{QUEUE_MS_MAX:.0f} ms a queue ({queue_ms:.2f})", queue_ms < QUEUE_MS_MAX),
        ):
            show_bar(bar, is_reached=is_reached)


def _start(directory: Path, *, is_killed: bool = False) -> tuple[float, int]:
    """Start a server once; return the seconds until it listens, and its RssAnon then."""
    if is_killed:
        # Without the checkpoints of the clean stop before, this start is one after a crash.
        shutil.rmtree(directory / "data" / "offsets", ignore_errors=True)
    started = time.perf_counter()
    with start_our_server("ours", directory) as broker:
        seconds = time.perf_counter() - started
        return seconds, ServerProbe(broker.pid).rss_anon_bytes() or 0


async def _make_data(
    path: Path, queues: int, messages: int, body_bytes: int, has_priorities: bool, is_killed: bool
) -> int:
    """Write the definitions and logs of a stopped server; return the size of the logs."""
    store = MetadataStore(path / "metadata")
    options = LogOptions(descriptors=Descriptors(16))
    arguments = {"x-max-priority": FieldValue(b"I", 10)} if has_priorities else {}
    definitions = []
    size_bytes = 0
    for number in range(queues):
        identity = LogIdentity("/", f"q{number}", uuid.uuid4())
        body = {
            "incarnation": str(identity.incarnation),
            "auto_delete": False,
            "arguments": table_to_json(arguments),
        }
        definitions.append(store.put(Document("queues", "/", identity.queue, body)))
        directory = log_directory(path, "/", identity.queue, identity.incarnation)
        count = messages * (number + 1) // queues - messages * number // queues
        log, _ = Log.open(directory, identity, options)
        _fill(log, identity, count, body_bytes, has_priorities)
        size_bytes += log.size_bytes
        if not is_killed:
            log.close()
    await asyncio.gather(*definitions)
    options.descriptors.close()
    await store.close()
    return size_bytes


def _fill(log: Log, identity: LogIdentity, count: int, body_bytes: int, has: bool) -> None:
    batch = [_message(number, body_bytes, has) for number in range(_BATCH)]
    start = 0
    while start < count:
        chunks, time_ns = [], time.time_ns()
        for _ in range(_CHUNKS_AT_ONCE):
            taken = batch[: count - start]
            if taken:
                chunks.append(encode_chunk(taken, start, None, time_ns, None, identity.salt))
                start += len(taken)
        log.append(Append(chunks, start, sync=False))
    log.append(Append([], start, sync=True))


def _message(number: int, body_bytes: int, has_priority: bool) -> bytes:
    flags, properties = _PERSISTENT, _PLAIN_PROPERTIES
    if has_priority:
        flags, properties = flags | _HAS_PRIORITY, _PRIORITY_PROPERTIES + bytes([number % 10])
    return encode_message(flags, b"", b"bench", properties, bytes(body_bytes))
