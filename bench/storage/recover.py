"""Speed of the scan of a log without a footer at a start: all chunk headers and CRCs."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from appendlog import Log, LogOptions, RecoveryReport
from appendlog.layout.segment_header import SEGMENT_HEADER_BYTES_MAX
from appendlog.options import SEGMENT_BYTES_MAX
from bench.storage.comparison import Comparison
from bench.storage.made_log import IDENTITY, LogSize, cat, log_options, make_log


@click.command()
@log_options
def benchmark(size: LogSize, rounds: int, data_dir: Path) -> None:
    """Open a log with one long segment from the page cache, as after a crash."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        directory = Path(name) / "log"
        options = LogOptions(segment_bytes=SEGMENT_BYTES_MAX)
        made = make_log(directory, size, options)
        made.close()
        title = f"recover {size.body_bytes} B in chunks of {size.chunk_bytes:,} B"
        comparison = Comparison(title, "cat", made.size_bytes)
        for _ in range(rounds):
            comparison.round(_opening(directory, options, made), lambda: cat(directory))
        comparison.show()


def _opening(directory: Path, options: LogOptions, made: Log) -> Callable[[], RecoveryReport]:
    def open_log() -> RecoveryReport:
        # This file has the checksums of the durable bytes: with it, nothing is scanned.
        (directory / "end").unlink()
        log, report = Log.open(directory, IDENTITY, options)
        assert report.record_count == log.log_end_offset == made.log_end_offset
        assert made.size_bytes - report.scanned_bytes < SEGMENT_HEADER_BYTES_MAX
        return report

    return open_log
