"""Files opened and bytes read for a hundred offsets out of millions; counted, not timed."""

import tempfile
from pathlib import Path
from typing import Final

import click

from appendlog import FileSystem, LogReader, SplitReader
from appendlog.layout.chunk import decode_chunk_header
from appendlog.layout.format import CHUNK_HEADER_BYTES
from appendlog.spark.planning.queues import find_queue
from bench.options import data_dir_option
from bench.spark.made_queue import QUEUE, VHOST, make_queue

RANGE: Final = 100
CHUNKS_MAX: Final = 2


class CountingFileSystem(FileSystem):
    """Lists the opened files, and counts the bytes that are read."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.read_bytes = 0

    def open(self, path: Path, flags: int, mode: int = 0o640) -> int:
        """Open a file, and add it to the list."""
        self.opened.append(path.name)
        return super().open(path, flags, mode)

    def pread(self, descriptor: int, size: int, position: int) -> bytes:
        """Read, and count the bytes."""
        data = super().pread(descriptor, size, position)
        self.read_bytes += len(data)
        return data


@click.command()
@click.option(
    "--messages", type=click.IntRange(RANGE), default=5_000_000, help="Messages of the log."
)
@data_dir_option("the log")
def benchmark(messages: int, data_dir: Path) -> None:
    """Count files opened and bytes read for 100 offsets in the middle of a log."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        make_queue(Path(name), messages)
        directory = find_queue(Path(name), VHOST, QUEUE).directory
        segments = len(list(directory.glob("*.log")))
        click.echo(f"{messages:,} messages in {segments} segments")
        planning = CountingFileSystem()
        start = messages // 2 - RANGE // 2 + 7
        with LogReader(directory, planning) as reader:
            splits = reader.plan_splits(start, start + RANGE)
        reading = CountingFileSystem()
        found = 0
        for split in splits:
            for batch in SplitReader(directory, reading).read(split):
                found += batch.record_count
        chunk_bytes = _chunk_bytes(directory / reading.opened[0], splits[0].start_position)
        lost = f"LOST {RANGE - found}"
        click.echo(
            f"  plan: opened {len(planning.opened)} files, read {planning.read_bytes:,} bytes"
        )
        click.echo(
            f"  read: opened {len(reading.opened)} segment, read {reading.read_bytes:,} bytes, "
            f"{reading.read_bytes / chunk_bytes:.2f} chunks (at most {CHUNKS_MAX})   {lost}"
        )


def _chunk_bytes(segment: Path, position: int) -> int:
    with segment.open("rb") as file:
        file.seek(position)
        return decode_chunk_header(file.read(CHUNK_HEADER_BYTES)).chunk_bytes
