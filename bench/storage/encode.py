"""Speed of assigning offsets and encoding chunks, in batches and one by one, without I/O."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import click

from appendlog import EmbeddedOptions, LogWriter, encode_chunk, encode_message
from appendlog.layout.records import COMPILED
from bench.options import data_dir_option
from bench.storage.comparison import show_bar
from bench.storage.made_log import IDENTITY

IN_BATCHES_MIN: Final = 5_000_000
ONE_BY_ONE_MIN: Final = 500_000
_BATCH_BYTES: Final = 64 << 20  # the writer writes nothing below this size
_PROPERTIES: Final = bytes.fromhex("100002")


@click.command()
@click.option(
    "--records", type=click.IntRange(1, 200_000), default=100_000, help="Records of a round."
)
@click.option(
    "--batch", "batch_records", type=click.IntRange(1), default=100, help="Records of a batch."
)
@click.option("--body-bytes", type=click.IntRange(0, 256), default=128, help="Size of each body.")
@click.option("--rounds", type=click.IntRange(1), default=7, help="Rounds; medians are shown.")
@data_dir_option("the empty logs")
def benchmark(
    records: int, batch_records: int, body_bytes: int, rounds: int, data_dir: Path
) -> None:
    """Assign offsets and encode chunks; prints this process's own CPU."""
    body = b"." * body_bytes
    message = encode_message(1, b"", b"bench", _PROPERTIES, body)
    batches = records // batch_records or 1
    click.echo(f"records of {body_bytes} B, {'compiled' if COMPILED else 'interpreted'}")

    def chunks() -> float:
        # Separate objects, as in a server: references to one object would stay in the cache.
        messages = [bytes(bytearray(message)) for _ in range(batch_records)]
        return _seconds_of(
            lambda offset: encode_chunk(messages, offset, None, 1, None, IDENTITY.salt), batches
        )

    def single_chunks() -> float:
        messages = [message]
        return _seconds_of(
            lambda offset: encode_chunk(messages, offset, None, 1, None, IDENTITY.salt), records
        )

    def appended(append: Callable[[LogWriter], object], calls: int) -> float:
        options = EmbeddedOptions(batch_bytes=_BATCH_BYTES, sync_interval_seconds=0)
        with tempfile.TemporaryDirectory(dir=data_dir) as name:
            writer = LogWriter.open(Path(name) / "log", IDENTITY, options)
            seconds = _seconds_of(lambda _: append(writer), calls)
            writer.delete()
        return seconds

    payloads = [body] * batch_records
    in_batches = batches * batch_records
    _show(f"encode_chunk, {batch_records} a chunk", in_batches, IN_BATCHES_MIN, rounds, chunks)
    _show("encode_chunk, one a chunk", records, ONE_BY_ONE_MIN, rounds, single_chunks)
    _show(
        f"LogWriter.append_batch of {batch_records}",
        in_batches,
        IN_BATCHES_MIN,
        rounds,
        lambda: appended(lambda writer: writer.append_batch(payloads), batches),
    )
    _show(
        "LogWriter.append",
        records,
        ONE_BY_ONE_MIN,
        rounds,
        lambda: appended(lambda writer: writer.append(body), records),
    )


def _seconds_of(call: Callable[[int], object], count: int) -> float:
    started = time.process_time()
    for number in range(count):
        call(number)
    return time.process_time() - started


def _show(
    title: str, records: int, rate_min: int, rounds: int, measure: Callable[[], float]
) -> None:
    rate = records / max(median(measure() for _ in range(rounds)), 1e-9)
    click.echo(f"{title:32}{rate / 1e6:7.2f} M/s {1e9 / rate:8.0f} ns each")
    show_bar(f"{rate_min / 1e6} M/s", is_reached=rate >= rate_min)
