"""How fast a program appends to a log of its own: `LogWriter` beside writing the same bytes."""

import os
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
from bench.storage.comparison import Comparison, seconds_of

RATIO_MIN: Final = 0.5
SINGLES_MIN: Final = 500_000

_IDENTITY: Final = LogIdentity("/", "bench", uuid.UUID("5d1f0a6e-7a4e-4b1c-9c55-3d1f2b9c0a12"))


@click.command()
@click.option("--records", type=click.IntRange(1), default=1_000_000, help="In each round.")
@click.option("--body-bytes", type=click.IntRange(0), default=128, help="Of each record.")
@click.option("--batch", type=click.IntRange(1), default=1_000, help="Records of one append.")
@click.option("--rounds", type=click.IntRange(1), default=5, help="Medians of so many.")
@click.option(
    "--data-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Where the log is made: a disk.",
)
def benchmark(records: int, body_bytes: int, batch: int, rounds: int, data_dir: Path) -> None:
    """Appending in batches and singly: everything is with the kernel at the end."""
    with tempfile.TemporaryDirectory(dir=data_dir) as name:
        place = _Place(Path(name), rounds)
        for syncs in (False, True):
            _in_batches(place, records, body_bytes, batch, syncs=syncs)
        _singly(place, records, body_bytes)


class _Place:
    """Where the logs of all rounds are made, one after the other."""

    def __init__(self, root: Path, rounds: int) -> None:
        self.rounds = rounds
        self._log = root / "log"
        self._plain = root / "plain"
        self._writer: LogWriter | None = None

    def prepare(self) -> None:
        """Close what is open, and remove the logs of an earlier run."""
        if self._writer is not None:
            self._writer.close()
        shutil.rmtree(self._log, ignore_errors=True)
        self._plain.unlink(missing_ok=True)
        # No thread syncs beside what is measured.
        options = EmbeddedOptions(sync_interval_seconds=0.0, segment_bytes=1 << 30)
        self._writer = LogWriter.open(self._log, _IDENTITY, options)

    @property
    def writer(self) -> LogWriter:
        """Of an empty log."""
        assert self._writer is not None
        return self._writer

    def write(self, chunks: list[bytes], *, syncs: bool) -> None:
        """Write the same bytes into one file."""
        descriptor = os.open(self._plain, os.O_WRONLY | os.O_CREAT)
        try:
            for chunk in chunks:
                os.write(descriptor, chunk)
            if syncs:
                os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the last log."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _in_batches(place: _Place, records: int, body_bytes: int, batch: int, *, syncs: bool) -> None:
    payloads = [b"%0*d" % (body_bytes, number) for number in range(batch)]
    count = max(records // batch, 1)
    messages = [message_prefix() + payload for payload in payloads]
    # What the batches become on the disk: payloads, and all that the log puts around them.
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
    verdict = "reached" if comparison.ratio >= RATIO_MIN else "MISSED"
    click.echo(f"  bar ratio {RATIO_MIN}: {verdict}")


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
    verdict = "reached" if rate >= SINGLES_MIN else "MISSED"
    click.echo(f"  bar {SINGLES_MIN:,} appends/s: {verdict}")
