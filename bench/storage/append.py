"""Speed of `Log.append`, beside writing the same bytes to one file."""

import shutil
import tempfile
from pathlib import Path

import click

from bench.storage.comparison import Comparison
from bench.storage.made_log import chunks_of, log_options, make_log, write_plainly


@click.command()
@log_options
def benchmark(
    mebibytes: int, body_bytes: int, chunk_bytes: int, rounds: int, data_dir: Path
) -> None:
    """Append to a log (encode, write, roll, index), with one sync at the end."""
    size = mebibytes << 20
    chunks = [chunk for chunk, _ in chunks_of(size, body_bytes, chunk_bytes)]
    title = f"append {body_bytes} B in chunks of {len(chunks[0]):,} B"
    comparison = Comparison(title, "plain write", sum(map(len, chunks)))
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        log, plain = Path(name) / "log", Path(name) / "plain"

        def append() -> None:
            make_log(log, size, body_bytes, chunk_bytes).close()

        def write() -> None:
            write_plainly(plain, chunks, syncs=True, syncs_each=False)

        def prepare() -> None:
            shutil.rmtree(log, ignore_errors=True)
            plain.unlink(missing_ok=True)

        for _ in range(rounds):
            comparison.round(append, write, prepare)
    comparison.show()
