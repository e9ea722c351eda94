"""How fast a place in a large log is found, by offset and by time, and its message read."""

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from appendlog import Log
from bench.storage.made_log import batch_of, make_log

SECONDS_MAX: Final = 1e-3
"""Bar for the slowest one in a hundred, files in the page cache."""
_BAR_PERCENT: Final = 99
_WINDOW_RECORDS: Final = 16_384


@click.command()
@click.option("--records", type=click.IntRange(1), default=50_000_000, help="Messages of the log.")
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Of each message.")
@click.option("--chunk-bytes", type=click.IntRange(1), default=256 << 10, help="Bytes in a chunk.")
@click.option("--seeks", type=click.IntRange(100), default=5_000, help="Places looked for.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Where the log is made: a disk.",
)
def benchmark(records: int, body_bytes: int, chunk_bytes: int, seeks: int, data_dir: Path) -> None:
    """Places all over a log of 50 M messages: by offset and by time. Needs 9 GB of disk."""
    batch = batch_of(body_bytes, chunk_bytes)
    size_bytes = records * (len(batch[0]) + 13)
    with tempfile.TemporaryDirectory(prefix="seek-", dir=data_dir) as name:
        started = time.perf_counter()
        log = make_log(Path(name) / "log", size_bytes, body_bytes, chunk_bytes)
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
            # All messages of a chunk of a made log have the time of its first.
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
    """Read the message at an offset; return where it is."""
    return log.read(offset, 1, 1).offsets[0]


def _window(log: Log, offset: int) -> int:
    """Read what a consumer that begins there is given first."""
    return log.read_window(offset, _WINDOW_RECORDS).parts[0].offsets[0]


def _same(offset: int) -> int:
    return offset


def _measure(
    title: str, seek: Callable[[int], int], expected: Callable[[int], int], places: list[int]
) -> None:
    """Seek all places twice, the first time to have the files in memory; print the second."""
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
