"""How fast records get their offsets and become chunks: in batches and one by one, without I/O."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import click

from appendlog import EmbeddedOptions, LogWriter, encode_chunk, encode_message
from appendlog.layout.records import COMPILED
from bench.storage.made_log import IDENTITY

IN_BATCHES_MIN: Final = 5_000_000
ONE_BY_ONE_MIN: Final = 500_000
_BATCH_BYTES: Final = 64 << 20  # nothing is written before this is reached
_PROPERTIES: Final = bytes.fromhex("100002")


@click.command()
@click.option("--records", type=click.IntRange(1, 200_000), default=100_000, help="Of a round.")
@click.option("--batch", "batch_records", type=click.IntRange(1), default=100, help="Of a batch.")
@click.option("--body-bytes", type=click.IntRange(0, 256), default=128, help="Of each record.")
@click.option("--rounds", type=click.IntRange(1), default=7, help="Medians of so many.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Where the empty log is made.",
)
def benchmark(
    records: int, batch_records: int, body_bytes: int, rounds: int, data_dir: Path
) -> None:
    """Assigning offsets and encoding chunks, in the process's own time."""
    body = b"." * body_bytes
    message = encode_message(1, b"", b"bench", _PROPERTIES, body)
    batches = records // batch_records or 1
    click.echo(f"records of {body_bytes} B, {'compiled' if COMPILED else 'interpreted'}")

    def chunks() -> float:
        # Objects of their own, as in a server: a copied one would stay in the cache.
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
    verdict = "reached" if rate >= rate_min else "MISSED"
    click.echo(f"  bar {rate_min / 1e6} M/s: {verdict}")
