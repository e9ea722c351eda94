"""Speed of `Log.append`, beside writing the same bytes to one file."""

import shutil
import tempfile
from pathlib import Path

import click

from bench.storage.comparison import Comparison
from bench.storage.made_log import LogSize, chunks_of, log_options, make_log, write_plainly


@click.command()
@log_options
def benchmark(size: LogSize, rounds: int, data_dir: Path) -> None:
    """Append to a log (encode, write, roll, index), with one sync at the end."""
    chunks = [chunk for chunk, _ in chunks_of(size)]
    title = f"append {size.body_bytes} B in chunks of {len(chunks[0]):,} B"
    comparison = Comparison(title, "plain write", sum(map(len, chunks)))
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        log, plain = Path(name) / "log", Path(name) / "plain"

        def append() -> None:
            make_log(log, size).close()

        def write() -> None:
            write_plainly(plain, chunks, syncs=True, syncs_each=False)

        def prepare() -> None:
            shutil.rmtree(log, ignore_errors=True)
            plain.unlink(missing_ok=True)

        for _ in range(rounds):
            comparison.round(append, write, prepare)
    comparison.show()
