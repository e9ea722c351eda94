"""Speed of finding a place in a segment by offset and by time, beside one small `pread`."""

import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import click

from appendlog import FileSystem
from appendlog.files.descriptors import Descriptors
from appendlog.options import INDEX_INTERVAL_BYTES
from appendlog.recovery.generations import newest_generations
from appendlog.segments.mapped_indexes import MappedIndexes
from appendlog.segments.sealed import read_sealed
from appendlog.segments.segment import Segment
from appendlog.segments.segment_indexes import SegmentIndexes
from bench.storage.comparison import show_bar
from bench.storage.made_log import IDENTITY, LogSize, log_options, make_log

MICROSECONDS_MAX: Final = 5.0
_LOOKUPS: Final = 20_000


@click.command()
@log_options
def benchmark(size: LogSize, rounds: int, data_dir: Path) -> None:
    """Look up places in a sealed segment whose index is mapped and in the page cache."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        directory = Path(name) / "log"
        log = make_log(directory, size)
        log.roll()
        log.close()
        filesystem, descriptors = FileSystem(), Descriptors(4)
        first = newest_generations(directory, filesystem)[0]
        segment = read_sealed(directory, IDENTITY, first, filesystem, descriptors)
        assert segment is not None
        indexes = SegmentIndexes(
            filesystem,
            descriptors,
            MappedIndexes(),
            IDENTITY.salt,
            INDEX_INTERVAL_BYTES,
            os.O_RDONLY,
            is_owner=False,
        )
        entries = sum(1 for _ in indexes.entries(segment))
        click.echo(f"segment of {segment.size_bytes / 1e6:,.0f} MB, {entries:,} index entries")
        beside = _microseconds(rounds, _small_read(segment))
        chance = random.Random(1)
        offsets = [chance.randrange(segment.end_offset) for _ in range(_LOOKUPS)]
        # In a made log, the append time of a message follows from its offset.
        times = [1_000 + offset for offset in offsets]
        for title, places, find in (
            ("by offset", offsets, indexes.locate),
            ("by time", times, indexes.locate_time),
        ):
            found = _microseconds(rounds, partial(_each, find, segment, places))
            click.echo(f"lookup {title}: {found:.2f} us; one pread of 88 bytes {beside:.2f} us")
            show_bar(f"{MICROSECONDS_MAX:.0f} us", is_reached=found < MICROSECONDS_MAX)
        descriptors.close()


def _each(find: Callable[[Segment, int], int], segment: Segment, places: list[int]) -> None:
    for place in places:
        find(segment, place)


def _small_read(segment: Segment) -> Callable[[], None]:
    def read() -> None:
        descriptor = os.open(segment.path, os.O_RDONLY)
        try:
            for at in range(_LOOKUPS):
                os.pread(descriptor, 88, at * 88)
        finally:
            os.close(descriptor)

    return read


def _microseconds(rounds: int, do: Callable[[], None]) -> float:
    """Return the time of one lookup: median of the rounds, after one that does not count."""
    do()
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        do()
        seconds.append(time.perf_counter() - started)
    return median(seconds) / _LOOKUPS * 1e6
