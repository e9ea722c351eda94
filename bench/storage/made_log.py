"""A log made for a measurement, and its files as other programs see them."""

import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

from appendlog import Log, LogIdentity, LogOptions, encode_chunk, encode_message

IDENTITY: Final = LogIdentity("/", "bench", uuid.UUID("5d1f0a6e-7a4e-4b1c-9c55-3d1f2b9c0a11"))
_PROPERTIES: Final = bytes.fromhex("100002")


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how the log is to be made."""
    for option in (
        click.option(
            "--data-dir",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            default=Path(),
            help="Where the log is made: a disk.",
        ),
        click.option("--rounds", type=click.IntRange(1), default=5, help="Medians of so many."),
        click.option(
            "--chunk-bytes", type=click.IntRange(1), default=256 << 10, help="Bytes in a chunk."
        ),
        click.option("--body-bytes", type=click.IntRange(0), default=128, help="Of each message."),
        click.option("--mebibytes", type=click.IntRange(1), default=256, help="Size of the log."),
    ):
        command = option(command)
    return command


def batch_of(body_bytes: int, chunk_bytes: int) -> list[bytes]:
    """Return the messages of one chunk."""
    message = encode_message(1, b"", b"bench", _PROPERTIES, bytes(range(256)) * (body_bytes // 256))
    message += b"." * (body_bytes % 256)
    return [message] * max(1, chunk_bytes // (len(message) + 12))


def chunks_of(size_bytes: int, body_bytes: int, chunk_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Return chunks of at least `size_bytes` in all, each with the log's end offset behind it."""
    batch = batch_of(body_bytes, chunk_bytes)
    offset = made_bytes = 0
    while made_bytes < size_bytes:
        chunk = encode_chunk(batch, offset, None, 1_000 + offset, None, IDENTITY.salt)
        offset += len(batch)
        made_bytes += len(chunk)
        yield chunk, offset


def make_log(
    directory: Path,
    size_bytes: int,
    body_bytes: int,
    chunk_bytes: int,
    options: LogOptions | None = None,
) -> Log:
    """Write a log, put it on the disk and return it open."""
    log, _ = Log.open(directory, IDENTITY, options)
    group: list[bytes] = []
    group_bytes = end = 0
    for chunk, end in chunks_of(size_bytes, body_bytes, chunk_bytes):
        group.append(chunk)
        group_bytes += len(chunk)
        if group_bytes >= 1 << 20:
            log.append(group, end, False)
            group, group_bytes = [], 0
    log.append(group, end, True)
    return log


def segment_files(directory: Path) -> list[Path]:
    """Return the segment files of a log, in order."""
    return sorted(directory.glob("*.log"))


def evict(directory: Path) -> None:
    """Drop the files of a log from the page cache, as far as they are on the disk."""
    for path in directory.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def cat(directory: Path) -> None:
    """Read the segment files as `cat` does, to nowhere."""
    files = [str(path) for path in segment_files(directory)]
    subprocess.run(["cat", *files], stdout=subprocess.DEVNULL, check=True)
