"""How fast a log is read in order: `Log.read` and `LogReader` beside `cat` of its files."""

import tempfile
from pathlib import Path

import click

from appendlog import Log, LogReader
from bench.storage.comparison import Comparison
from bench.storage.made_log import cat, evict, log_options, make_log, segment_files

_READ_BYTES = 1 << 20
_READ_RECORDS = 16_384


@click.command()
@log_options
def benchmark(
    mebibytes: int, body_bytes: int, chunk_bytes: int, rounds: int, data_dir: Path
) -> None:
    """Reading from start to end: from the disk (cold), and from the page cache (warm)."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        directory = Path(name) / "log"
        log = make_log(directory, mebibytes << 20, body_bytes, chunk_bytes)
        size = sum(path.stat().st_size for path in segment_files(directory))

        def beside() -> None:
            cat(directory)

        def drop() -> None:
            evict(directory)

        def keep() -> None:
            """Leave the page cache as it is."""

        for state, prepare in (("cold", drop), ("warm", keep)):
            reads = Comparison(f"Log.read {body_bytes} B, {state}", "cat", size)
            readers = Comparison(f"LogReader.read {body_bytes} B, {state}", "cat", size)
            for _ in range(rounds):
                reads.round(lambda: read_log(log), beside, prepare)
                readers.round(lambda: read_with_reader(directory), beside, prepare)
            reads.show()
            readers.show()
        log.close()


def read_log(log: Log) -> int:
    """Read a log from start to end as a queue without consumers' credit would."""
    offset = count = 0
    while offset < log.log_end_offset:
        result = log.read(offset, _READ_BYTES, _READ_RECORDS)
        count += len(result.messages)
        offset = result.next_offset
    return count


def read_with_reader(directory: Path) -> int:
    """Read a log from start to end as another process would."""
    with LogReader(directory) as reader:
        return sum(len(batch.messages) for batch in reader.read())
