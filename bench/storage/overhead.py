"""Bytes that a message takes on the disk beyond the bytes that the client sent.

Counts whole files, with segment headers, footers, indexes and the durable end.
"""

import json
import random
import tempfile
from pathlib import Path
from typing import Final

import click

from appendlog import Append, Compression, Log, LogOptions, encode_chunk, encode_message
from bench.options import data_dir_option
from bench.storage.made_log import IDENTITY

EXCHANGE: Final = b"amq.topic"
ROUTING_KEY: Final = b"flights.WN.DEN"
PROPERTIES: Final = bytes.fromhex("100002")
SENT_BYTES: Final = len(EXCHANGE) + len(ROUTING_KEY) + len(PROPERTIES)


@click.command()
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Size of each body.")
@click.option(
    "--count",
    type=click.IntRange(1),
    default=200_000,
    help="Messages that are appended in batches.",
)
@click.option(
    "--lone-count",
    type=click.IntRange(1),
    default=20_000,
    help="Messages that are appended one by one.",
)
@data_dir_option("the logs")
def benchmark(body_bytes: int, count: int, lone_count: int, data_dir: Path) -> None:
    """Count the bytes on the disk for each message beyond body, exchange, key and properties."""
    bodies = [_text(number, body_bytes) for number in range(count)]
    for name, batch, number, compression in (
        ("1,000 a chunk", 1_000, count, Compression.NONE),
        ("100 a chunk", 100, count, Compression.NONE),
        ("10 a chunk", 10, count, Compression.NONE),
        ("alone", 1, lone_count, Compression.NONE),
        ("1,000 a chunk, zstd", 1_000, count, Compression.ZSTD),
    ):
        with tempfile.TemporaryDirectory(dir=data_dir) as directory:
            stored = stored_bytes(Path(directory), bodies[:number], batch, compression)
        each = stored / number
        beyond = each - SENT_BYTES - body_bytes
        click.echo(f"{name:<22}{each:>9.1f} B a message {beyond:>+9.1f} B beyond what was sent")


def stored_bytes(directory: Path, bodies: list[bytes], batch: int, compression: Compression) -> int:
    """Write bodies as messages, and return the size of all files of the closed log."""
    options = LogOptions(compression=compression)
    log, _ = Log.open(directory / "log", IDENTITY, options)
    for start in range(0, len(bodies), batch):
        messages = [
            encode_message(1, EXCHANGE, ROUTING_KEY, PROPERTIES, body)
            for body in bodies[start : start + batch]
        ]
        chunk = encode_chunk(messages, start, None, 1_000 + start, None, IDENTITY.salt)
        log.append(Append([chunk], start + len(messages), sync=False))
    log.close()
    return sum(path.stat().st_size for path in (directory / "log").iterdir())


def _text(number: int, size: int) -> bytes:
    """Return a typical body: JSON with different numbers, cut to its size."""
    chance = random.Random(number)
    record = {
        "flight": chance.randrange(10_000),
        "carrier": chance.choice(("WN", "AA", "UA", "DL", "B6")),
        "delay_minutes": chance.randrange(-20, 300),
        "tail": f"N{chance.randrange(100_000)}",
        "state": chance.choice(("boarding", "departed", "landed", "cancelled")),
        "sequence": number,
    }
    return json.dumps(record).encode().ljust(size, b" ")[:size]
