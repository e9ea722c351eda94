"""A log for a measurement, and plain reads and writes of the same bytes."""

import functools
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from appendlog import Append, Log, LogIdentity, LogOptions, encode_chunk, encode_message
from bench.options import data_dir_option

IDENTITY: Final = LogIdentity("/", "bench", uuid.UUID("5d1f0a6e-7a4e-4b1c-9c55-3d1f2b9c0a11"))
_PROPERTIES: Final = bytes.fromhex("100002")


@dataclass(frozen=True, slots=True)
class LogSize:
    """Size of a log.

    Attributes:
        size_bytes: Minimum size of all chunks together.
        body_bytes: Size of each body.
        chunk_bytes: Approximate size of each chunk.
    """

    size_bytes: int
    body_bytes: int
    chunk_bytes: int


def log_options(benchmark: Callable[[LogSize, int, Path], None]) -> Callable[..., Any]:
    """Give a benchmark the options for a log's size, its rounds and its directory."""

    @functools.wraps(benchmark)
    def command(
        mebibytes: int, body_bytes: int, chunk_bytes: int, rounds: int, data_dir: Path
    ) -> None:
        benchmark(LogSize(mebibytes << 20, body_bytes, chunk_bytes), rounds, data_dir)

    with_options: Callable[..., Any] = command
    for option in (
        data_dir_option("the logs"),
        click.option(
            "--rounds", type=click.IntRange(1), default=5, help="Rounds; medians are shown."
        ),
        click.option(
            "--chunk-bytes", type=click.IntRange(1), default=256 << 10, help="Size of a chunk."
        ),
        click.option(
            "--body-bytes", type=click.IntRange(0), default=128, help="Size of each body."
        ),
        click.option(
            "--mebibytes", type=click.IntRange(1), default=256, help="Size of the log in MiB."
        ),
    ):
        with_options = option(with_options)
    return with_options


def batch_of(body_bytes: int, chunk_bytes: int) -> list[bytes]:
    """Return the messages of one chunk."""
    message = encode_message(1, b"", b"bench", _PROPERTIES, bytes(range(256)) * (body_bytes // 256))
    message += b"." * (body_bytes % 256)
    return [message] * max(1, chunk_bytes // (len(message) + 12))


def chunks_of(size: LogSize) -> Iterator[tuple[bytes, int]]:
    """Return the chunks of a log, each with the offset after it."""
    batch = batch_of(size.body_bytes, size.chunk_bytes)
    offset = made_bytes = 0
    while made_bytes < size.size_bytes:
        chunk = encode_chunk(batch, offset, None, 1_000 + offset, None, IDENTITY.salt)
        offset += len(batch)
        made_bytes += len(chunk)
        yield chunk, offset


def make_log(directory: Path, size: LogSize, options: LogOptions | None = None) -> Log:
    """Write and sync a log, and return it open."""
    log, _ = Log.open(directory, IDENTITY, options)
    group: list[bytes] = []
    group_bytes = end = 0
    for chunk, end in chunks_of(size):
        group.append(chunk)
        group_bytes += len(chunk)
        if group_bytes >= 1 << 20:
            log.append(Append(group, end, sync=False))
            group, group_bytes = [], 0
    log.append(Append(group, end, sync=True))
    return log


def segment_files(directory: Path) -> list[Path]:
    """Return the segment files of a log, in order."""
    return sorted(directory.glob("*.log"))


def evict(directory: Path) -> None:
    """Evict the files of a log from the page cache; only synced pages can be evicted."""
    for path in directory.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cat(directory: Path) -> None:
    """Read the segment files with `cat`, and discard the bytes."""
    files = [str(path) for path in segment_files(directory)]
    subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)


def write_plainly(path: Path, pieces: Sequence[bytes], *, syncs: bool, syncs_each: bool) -> None:
    """Append pieces to one file, each with one `write`.

    Args:
        path: The file.
        pieces: Bytes of each write.
        syncs: Whether to sync at the end.
        syncs_each: Whether to sync after each write.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for piece in pieces:
            os.write(descriptor, piece)
            if syncs_each:
                os.fdatasync(descriptor)
        if syncs:
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
