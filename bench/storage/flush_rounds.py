"""Group commit: many dirty logs in one round of the flusher, beside one log at a time.

The plain way is the same flusher with one log at a time. For a single log, a second line compares
the flusher with `write` and `fdatasync` of each batch.
"""

import tempfile
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final
from uuid import UUID

import click

from appendlog import (
    Append,
    Flusher,
    FlushRequest,
    FlushResult,
    Log,
    LogIdentity,
    encode_chunk,
)
from appendlog.flushing.flusher import PARALLEL_MAX
from bench.options import data_dir_option
from bench.storage.comparison import Comparison
from bench.storage.made_log import batch_of, write_plainly

_BATCHES: Final = 200
"""Batches of the single log in a round of the second line."""


class Rounds:
    """Some logs, each of which gets one chunk in every round.

    Args:
        directory: Directory for the logs.
        log_count: Number of logs.
        batch: Messages of a chunk.
        parallel_max: Most logs that are written at the same time.
    """

    def __init__(
        self, directory: Path, log_count: int, batch: list[bytes], parallel_max: int
    ) -> None:
        self._batch = batch
        self._left = 0
        self._flusher = Flusher(self._take_results, parallel_max)
        self._logs: list[Log] = []
        for number in range(log_count):
            identity = LogIdentity("/", str(number), UUID(int=number))
            self._logs.append(Log.open(directory / str(number), identity)[0])
        self._flusher.start(self._watch)
        self.run()

    def run(self) -> None:
        """Run one round, and return when all logs are synced."""
        self._left = len(self._logs)
        for log in self._logs:
            start = log.log_end_offset
            chunk = encode_chunk(self._batch, start, None, 1_000 + start, None, log.identity.salt)
            self._flusher.submit(
                FlushRequest(log, Append([chunk], start + len(self._batch), sync=True))
            )
        while self._left:
            wait([self._fileno])
            self._take_done()

    def close(self) -> None:
        """Stop the threads, which have nothing to do."""
        self._flusher.close(lambda: None)

    def _watch(self, fileno: int, take_done: Callable[[], None]) -> None:
        self._fileno = fileno
        self._take_done = take_done

    def _take_results(self, results: list[FlushResult]) -> None:
        assert all(result.error is None for result in results), "a log failed"
        self._left -= len(results)


@click.command()
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Size of each body.")
@click.option(
    "--batch-bytes", type=click.IntRange(1), default=4096, help="Bytes of a log in a round."
)
@click.option("--rounds", type=click.IntRange(1), default=9, help="Rounds; medians are shown.")
@data_dir_option("the logs")
@click.argument("log_counts", type=click.IntRange(1), nargs=-1)
def benchmark(
    body_bytes: int, batch_bytes: int, rounds: int, data_dir: Path, log_counts: tuple[int, ...]
) -> None:
    """Flush 1, 10, 100 and 1000 dirty logs (or LOG_COUNTS) in a round, each synced."""
    batch = batch_of(body_bytes, batch_bytes)
    size_bytes = sum(map(len, batch))
    for log_count in log_counts or (1, 10, 100, 1000):
        with tempfile.TemporaryDirectory(dir=data_dir) as name:
            parallel = Rounds(Path(name) / "parallel", log_count, batch, PARALLEL_MAX)
            single = Rounds(Path(name) / "single", log_count, batch, 1)
            title = f"round over {log_count:,} logs of {size_bytes:,} B"
            comparison = Comparison(title, "one by one", log_count * size_bytes)
            for _ in range(rounds):
                comparison.round(parallel.run, single.run)
            comparison.show()
            if log_count == 1:
                plain = Comparison(
                    "1 log, batch by batch", "write+fdatasync", _BATCHES * size_bytes
                )
                for _ in range(rounds):
                    plain.round(_repeated(single.run), _writing(Path(name) / "plain", batch))
                plain.show()
            parallel.close()
            single.close()


def _repeated(run: Callable[[], None]) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(_BATCHES):
            run()

    return repeat


def _writing(path: Path, batch: list[bytes]) -> Callable[[], None]:
    pieces = [b"".join(batch)] * _BATCHES
    return lambda: write_plainly(path, pieces, syncs=False, syncs_each=True)
