"""Speed of `LogWriter`, with which a program appends to its own log, beside plain writes."""

import shutil
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import click

from appendlog import EmbeddedOptions, LogIdentity, LogWriter, encode_chunk
from appendlog.embedded.records import message_prefix
from bench.options import data_dir_option
from bench.storage.comparison import Comparison, seconds_of, show_bar
from bench.storage.made_log import write_plainly

RATIO_MIN: Final = 0.5
SINGLES_MIN: Final = 500_000

_IDENTITY: Final = LogIdentity("/", "bench", uuid.UUID("5d1f0a6e-7a4e-4b1c-9c55-3d1f2b9c0a12"))


@click.command()
@click.option("--records", type=click.IntRange(1), default=1_000_000, help="Records of a round.")
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Size of each record.")
@click.option("--batch", type=click.IntRange(1), default=1_000, help="Records of one append.")
@click.option("--rounds", type=click.IntRange(1), default=5, help="Rounds; medians are shown.")
@data_dir_option("the logs")
def benchmark(records: int, body_bytes: int, batch: int, rounds: int, data_dir: Path) -> None:
    """Append in batches and one by one; at the end, the kernel has all records."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        place = _Place(Path(name), rounds)
        for syncs in (False, True):
            _in_batches(place, records, body_bytes, batch, syncs=syncs)
        _singly(place, records, body_bytes)


class _Place:
    """Directory in which each round creates its log.

    Args:
        root: Directory for the logs.
        rounds: Number of rounds.
    """

    def __init__(self, root: Path, rounds: int) -> None:
        self.rounds = rounds
        self._log = root / "log"
        self._plain = root / "plain"
        self._writer: LogWriter | None = None

    def prepare(self) -> None:
        """Close and remove the logs of an earlier run, and open an empty one."""
        if self._writer is not None:
            self._writer.close()
        shutil.rmtree(self._log, ignore_errors=True)
        self._plain.unlink(missing_ok=True)
        # No thread syncs during the measurement.
        options = EmbeddedOptions(sync_interval_seconds=0.0, segment_bytes=1 << 30)
        self._writer = LogWriter.open(self._log, _IDENTITY, options)

    @property
    def writer(self) -> LogWriter:
        """Writer of the current log."""
        assert self._writer is not None
        return self._writer

    def write(self, chunks: list[bytes], *, syncs: bool) -> None:
        """Write the same bytes to one file."""
        write_plainly(self._plain, chunks, syncs=syncs, syncs_each=False)

    def close(self) -> None:
        """Close the last log."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _in_batches(place: _Place, records: int, body_bytes: int, batch: int, *, syncs: bool) -> None:
    payloads = [b"%0*d" % (body_bytes, number) for number in range(batch)]
    count = max(records // batch, 1)
    messages = [message_prefix() + payload for payload in payloads]
    # The batches as the log writes them: payloads and the bytes around them.
    chunks = [
        encode_chunk(messages, number * batch, None, 1, None, _IDENTITY.salt)
        for number in range(count)
    ]

    def append() -> None:
        writer = place.writer
        for _ in range(count):
            writer.append_batch(payloads)
        writer.sync() if syncs else writer.flush()

    def write() -> None:
        place.write(chunks, syncs=syncs)

    title = f"{batch:,} x {body_bytes} B" + (", one sync at the end" if syncs else "")
    comparison = Comparison(title, "os.write", sum(map(len, chunks)))
    for _ in range(place.rounds):
        comparison.round(append, write, place.prepare)
    place.close()
    comparison.show()
    show_bar(f"ratio {RATIO_MIN}", is_reached=comparison.ratio >= RATIO_MIN)


def _singly(place: _Place, records: int, body_bytes: int) -> None:
    payload = b"." * body_bytes

    def append() -> None:
        take: Callable[[bytes], int] = place.writer.append
        for _ in range(records):
            take(payload)
        place.writer.flush()

    seconds = []
    for _ in range(place.rounds):
        place.prepare()
        seconds.append(seconds_of(append))
    place.close()
    rate = records / median(seconds)
    click.echo(
        f"singly, {body_bytes} B: {rate:,.0f} appends/s, {1e6 / rate:.2f} us each; to the kernel "
        f"every {EmbeddedOptions().batch_bytes >> 10} KiB"
    )
    show_bar(f"{SINGLES_MIN:,} appends/s", is_reached=rate >= SINGLES_MIN)
