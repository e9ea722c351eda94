"""Speed of finding a place in a large log by offset and by time, and reading its message."""

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from appendlog import Log
from bench.options import data_dir_option
from bench.storage.made_log import LogSize, batch_of, make_log

SECONDS_MAX: Final = 1e-3
"""Bar for the 99th percentile, with the files in the page cache."""
_BAR_PERCENT: Final = 99
_WINDOW_RECORDS: Final = 16_384


@click.command()
@click.option("--records", type=click.IntRange(1), default=50_000_000, help="Messages of the log.")
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Size of each body.")
@click.option("--chunk-bytes", type=click.IntRange(1), default=256 << 10, help="Size of a chunk.")
@click.option("--seeks", type=click.IntRange(100), default=5_000, help="Number of lookups.")
@data_dir_option("the log")
def benchmark(records: int, body_bytes: int, chunk_bytes: int, seeks: int, data_dir: Path) -> None:
    """Look up places all over a log of 50 million messages (9 GB of disk)."""
    batch = batch_of(body_bytes, chunk_bytes)
    size_bytes = records * (len(batch[0]) + 13)
    with tempfile.TemporaryDirectory(prefix="seek-", dir=data_dir) as name:
        started = time.perf_counter()
        log = make_log(Path(name) / "log", LogSize(size_bytes, body_bytes, chunk_bytes))
        log.roll()
        end = log.log_end_offset
        seconds = time.perf_counter() - started
        click.echo(
            f"{end:,} messages of {body_bytes} B in {len(log.segments) - 1} segments, "
            f"{log.size_bytes / 1e9:.1f} GB, made in {seconds:.0f} s"
        )
        chance = random.Random(1)
        places = [chance.randrange(end) for _ in range(seeks)]
        in_chunk = len(batch)

        def by_time(offset: int) -> int:
            # In a made log, all messages of a chunk have the time of its first message.
            return log.first_offset_at(1_000 + offset // in_chunk * in_chunk)

        ways: tuple[tuple[str, Callable[[int], int], Callable[[int], int]], ...] = (
            ("first offset at a time", by_time, lambda offset: offset // in_chunk * in_chunk),
            ("message at an offset", lambda offset: _message(log, offset), _same),
            ("window from an offset", lambda offset: _window(log, offset), _same),
        )
        for title, seek, expected in ways:
            _measure(title, seek, expected, places)
        log.close()


def _message(log: Log, offset: int) -> int:
    """Read the message at an offset, and return the offset of the result."""
    return log.read(offset, 1, 1).offsets[0]


def _window(log: Log, offset: int) -> int:
    """Read the first window of a consumer that starts at an offset."""
    return log.read_window(offset, _WINDOW_RECORDS).parts[0].offsets[0]


def _same(offset: int) -> int:
    return offset


def _measure(
    title: str, seek: Callable[[int], int], expected: Callable[[int], int], places: list[int]
) -> None:
    """Look up all places twice; the first time loads the files, the second is printed."""
    seconds: list[float] = []
    for _ in range(2):
        seconds.clear()
        for place in places:
            started = time.perf_counter()
            found = seek(place)
            seconds.append(time.perf_counter() - started)
            if found != expected(place):
                raise click.ClickException(f"{title}: {found}, not {expected(place)}")
    seconds.sort()
    middle, slow = seconds[len(seconds) // 2], seconds[len(seconds) * _BAR_PERCENT // 100]
    verdict = "reached" if slow < SECONDS_MAX else "MISSED"
    click.echo(
        f"{title:<24} p50 {middle * 1e6:7.0f} us  p99 {slow * 1e6:7.0f} us  "
        f"max {seconds[-1] * 1e6:7.0f} us  bar p99 {SECONDS_MAX * 1e6:,.0f} us: {verdict}"
    )
