"""Speed of reading a log in order: `Log.read` and `LogReader` beside `cat` of its files."""

import tempfile
from pathlib import Path

import click

from appendlog import Log, LogOptions, LogReader
from appendlog.files.mappings import Mappings
from bench.storage.comparison import Comparison
from bench.storage.made_log import LogSize, cat, evict, log_options, make_log, segment_files

_READ_BYTES = 1 << 20
_READ_RECORDS = 16_384


@click.command()
@log_options
def benchmark(size: LogSize, rounds: int, data_dir: Path) -> None:
    """Read a log from start to end, from the disk (cold) and from the page cache (warm)."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        directory = Path(name) / "log"
        mappings = Mappings()
        options = LogOptions(mappings=mappings)
        log = make_log(directory, size, options)
        size_bytes = sum(path.stat().st_size for path in segment_files(directory))

        def beside() -> None:
            cat(directory)

        def drop() -> None:
            mappings.close()  # mapped pages cannot be evicted
            evict(directory)

        def keep() -> None:
            """Leave the page cache unchanged."""

        ways = {
            "Log.read_window": lambda: read_windows(log),
            "Log.read, a copy of each message": lambda: read_log(log),
            "LogReader.read": lambda: read_with_reader(directory),
            "LogReader.read, copies": lambda: read_with_reader(directory, copies=True),
        }
        for state, prepare in (("cold", drop), ("warm", keep)):
            lines = {way: Comparison(f"{way}, {state}", "cat", size_bytes) for way in ways}
            for _ in range(rounds):
                for way, line in lines.items():
                    line.round(ways[way], beside, prepare)
            for line in lines.values():
                line.show()
        log.close()


def read_windows(log: Log) -> int:
    """Read a log from start to end as the broker reads ahead: places of the messages only."""
    offset = count = 0
    while offset < log.log_end_offset:
        result = log.read_window(offset, _READ_RECORDS)
        count += result.record_count
        offset = result.next_offset
    return count


def read_log(log: Log) -> int:
    """Read a log from start to end with a `bytes` for each message."""
    offset = count = 0
    while offset < log.log_end_offset:
        result = log.read(offset, _READ_BYTES, _READ_RECORDS)
        count += len(result.messages)
        offset = result.next_offset
    return count


def read_with_reader(directory: Path, *, copies: bool = False) -> int:
    """Read a log from start to end as another process does."""
    with LogReader(directory) as reader:
        if copies:
            return sum(len(batch.messages) for batch in reader.read())
        return sum(batch.record_count for batch in reader.read())
