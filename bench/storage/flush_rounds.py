"""Group commit: many dirty logs in a round of the flusher, beside one after the other.

The plain way is the same flusher with one log at a time. Also: one log through the flusher, beside
`write` and `fdatasync` of the same bytes, one batch after the other.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from uuid import UUID

import click

from appendlog import FlushRequest, FlushResult, Log, LogIdentity, ThreadFlusher, encode_chunk
from appendlog.flushing.flusher import PARALLEL_MAX
from bench.storage.comparison import Comparison
from bench.storage.made_log import batch_of


class Rounds:
    """Some logs, each of which gets one chunk in every round.

    Args:
        directory: Where the logs are made.
        log_count: Of them.
        batch: Messages of a chunk.
        parallel_max: Logs that are written at a time.
    """

    def __init__(
        self, directory: Path, log_count: int, batch: list[bytes], parallel_max: int
    ) -> None:
        self._batch = batch
        self._reports: SimpleQueue[list[FlushResult]] = SimpleQueue()
        self._flusher = ThreadFlusher(self._reports.put, parallel_max)
        self._logs: list[Log] = []
        for number in range(log_count):
            identity = LogIdentity("/", str(number), UUID(int=number))
            self._logs.append(Log.open(directory / str(number), identity)[0])
        self._flusher.start()
        self.run()

    def run(self) -> None:
        """Do one round: returns when all logs are on the disk."""
        for log in self._logs:
            start = log.log_end_offset
            chunk = encode_chunk(self._batch, start, None, 1_000 + start, None, log.identity.salt)
            self._flusher.submit(FlushRequest(log, [chunk], start + len(self._batch), sync=True))
        left = len(self._logs)
        while left:
            results = self._reports.get()
            assert all(result.error is None for result in results), "a log failed"
            left -= len(results)

    def close(self) -> None:
        """End the threads."""
        self._flusher.close()


@click.command()
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Of each message.")
@click.option("--batch-bytes", type=click.IntRange(1), default=4096, help="Of a log in a round.")
@click.option("--rounds", type=click.IntRange(1), default=9, help="Medians of so many.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Where the logs are made: a disk.",
)
@click.argument("log_counts", type=click.IntRange(1), nargs=-1)
def benchmark(
    body_bytes: int, batch_bytes: int, rounds: int, data_dir: Path, log_counts: tuple[int, ...]
) -> None:
    """Rounds over 1, 10, 100 and 1000 dirty logs (or LOG_COUNTS), each synced."""
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
                plain = Comparison("1 log, batch by batch", "write+fdatasync", 200 * size_bytes)
                for _ in range(rounds):
                    plain.round(_repeated(single.run), _writing(Path(name) / "plain", batch))
                plain.show()
            parallel.close()
            single.close()


def _repeated(run: Callable[[], None]) -> Callable[[], None]:
    def repeat() -> None:
        for _ in range(200):
            run()

    return repeat


def _writing(path: Path, batch: list[bytes]) -> Callable[[], None]:
    data = b"".join(batch)

    def write() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for _ in range(200):
                os.write(descriptor, data)
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    return write
