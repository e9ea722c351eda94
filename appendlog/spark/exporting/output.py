"""The output directory: what is in it, whose it is, and how new files come into it.

    out/queue=<queue>/part-<start>-<end>.parquet    20 digits each, [start, end)
    out/_amqplog/<queue>/lock                       held by the export that is writing
    out/_amqplog/<queue>/job-<unique>/              files that are not finished

The name of a file is the range of offsets that it covers: the state of the export lies with
its output, and needs no other. Names that begin with `_` are invisible to Spark.
"""

import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from appendlog.spark.errors import OutputError
from appendlog.spark.exporting.layout import (
    WORK_DIRECTORY,
    file_metadata,
    folder_name,
    part_name,
)
from appendlog.spark.planning.queues import QueueLog
from metadata.names import encode_name

_PART_NAME: Final = re.compile(r"part-(\d{20})-(\d{20})\.parquet\Z")


@dataclass(frozen=True, slots=True)
class FinishedPart:
    """A file that a task has written and synced, not yet in its place.

    Attributes:
        start_offset: Inclusive.
        end_offset: Exclusive.
        path: Its temporary name.
    """

    start_offset: int
    end_offset: int
    path: Path


class OutputDirectory:
    """The part of an output directory that belongs to one queue.

    Args:
        root: What the user gave as output; created by `locked`.
        log: Whose messages it holds.

    Attributes:
        folder: Where the files of the queue are.
    """

    def __init__(self, root: Path, log: QueueLog) -> None:
        self.folder: Final = root / folder_name(log.queue)
        self._work = root / WORK_DIRECTORY / encode_name(log.queue)
        self._log = log

    def covered(self) -> list[tuple[int, int]]:
        """Return the ranges of offsets that files in place cover, in order, joined.

        Raises:
            OutputError: A file is not this queue incarnation's, or is not readable.
        """
        ranges: list[tuple[int, int]] = []
        for path in sorted(self.folder.glob("*.parquet")):
            name = _PART_NAME.match(path.name)
            if name is None:
                raise OutputError(f"{path}: not a file of an export; give another --out")
            self._check_owner(path)
            start, end = int(name[1]), int(name[2])
            if ranges and start <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            else:
                ranges.append((start, end))
        return ranges

    @contextmanager
    def locked(self) -> Iterator[Path]:
        """Make the directories, keep other exports out, give a folder for unfinished files.

        The folder is removed at the end, with what is left in it; so are those that a
        killed export has left. A lock dies with its process.

        Raises:
            OutputError: Another export of the queue is writing here, or nothing can be
                written here.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._work.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise OutputError(f"{self.folder}: {error.strerror}") from error
        try:
            self._lock(lock)
            for stale in self._work.glob("job-*"):
                shutil.rmtree(stale, ignore_errors=True)
            job = self._work / f"job-{uuid.uuid4().hex}"
            job.mkdir()
            try:
                yield job
            finally:
                shutil.rmtree(job, ignore_errors=True)
        finally:
            os.close(lock)

    def commit(self, parts: Sequence[FinishedPart]) -> None:
        """Move files into their place; the caller holds the lock.

        Each rename makes one range visible, whole. A crash between two of them leaves a
        correct output that the next export completes, so no order or undo is needed.

        Raises:
            OutputError: A file cannot be moved; those before it are in place.
        """
        try:
            for part in parts:
                part.path.rename(self.folder / part_name(part.start_offset, part.end_offset))
            for directory in (self.folder, self.folder.parent):
                _sync_directory(directory)
        except OSError as error:
            raise OutputError(f"{error.filename or self.folder}: {error.strerror}") from error

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OutputError(f"{self.folder}: another export is writing here; wait for it") from (
                error
            )

    def _check_owner(self, path: Path) -> None:
        try:
            found = pq.read_metadata(path).metadata or {}
        except (OSError, pa.ArrowException) as error:
            raise OutputError(f"{path}: not a readable Parquet file: {error}") from error
        for key, expected in file_metadata(self._log).items():
            value = found.get(key.encode(), b"").decode("utf-8", "replace")
            if value != expected:
                what = key.removeprefix("amqplog.")
                raise OutputError(
                    f"{path}: {what} is {value or 'missing'}, that of the queue is {expected}: "
                    "offsets of one are not those of the other; give another --out"
                )


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
