"""Chooses messages of a queue by whether the last checkpoint has them as settled.

The log of a queue also has messages that consumers have settled. Every few seconds the broker
writes to the checkpoint which messages are settled (acked, rejected, expired, dropped). The
checkpoint may be behind, and is never ahead. So `acked` never has a message that is still to be
delivered, and `unacked` may have messages that were settled since that checkpoint.

A choice is made of ranges of offsets. It is fixed once, when a job is planned, so that all tasks
agree.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from appendlog.files.filesystem import FileSystem
from appendlog.spark.errors import SettlementError
from appendlog.spark.planning.queues import DOCUMENT_BYTES_MAX, QUEUES, QueueLog
from appendlog.spark.planning.ranges import Range, join_ranges, offsets_in, subtract_ranges
from metadata.document import decode_document
from metadata.errors import DocumentFormatError
from metadata.paths import document_path
from offsets.checkpoint_reading import CheckpointRecovery, read_checkpoint
from offsets.errors import OffsetsError
from offsets.queue_checkpoint import decode_checkpoint

OFFSETS_FOLDER: Final = "offsets"


class Include(StrEnum):
    """Messages to read: all, or by whether they are settled."""

    ALL = "all"
    ACKED = "acked"
    UNACKED = "unacked"


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """Offsets that are wanted; picklable.

    Attributes:
        ranges: Ordered ranges `[start, end)` that do not touch.
    """

    ranges: tuple[Range, ...]

    def clip(self, start: int, end: int) -> "OffsetChoice":
        """Return the wanted offsets in `[start, end)`."""
        first = bisect_right(self.ranges, start, key=lambda each: each[1])
        last = bisect_left(self.ranges, end, key=lambda each: each[0])
        inside = self.ranges[first:last]
        return OffsetChoice(tuple((max(low, start), min(high, end)) for low, high in inside))

    def count(self, start: int, end: int) -> int:
        """Return the number of wanted offsets in `[start, end)`."""
        return offsets_in(self.clip(start, end).ranges)

    def among(self, ranges: Sequence[Range]) -> list[Range]:
        """Return the wanted parts of some ranges, in their order."""
        return [part for start, end in ranges for part in self.clip(start, end).ranges]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted rows of a batch, which has an ascending column `offset`.

        Copies nothing if the wanted rows are neighbours.
        """
        if not batch.num_rows:
            return batch
        offsets = batch.column("offset").to_numpy()
        wanted = self.clip(int(offsets[0]), int(offsets[-1]) + 1).ranges
        edges = np.searchsorted(offsets, np.array(wanted, dtype=np.int64).reshape(-1))
        # Ranges of row numbers; wanted offsets without a row leave empty ranges.
        runs = edges.reshape(-1, 2)
        runs = runs[runs[:, 0] < runs[:, 1]]
        if len(runs) <= 1:
            first, last = runs[0] if len(runs) else (0, 0)
            return batch.slice(first, last - first)
        steps = np.zeros(batch.num_rows + 1, dtype=np.int8)
        np.add.at(steps, runs[:, 0], 1)
        np.add.at(steps, runs[:, 1], -1)
        return batch.filter(pa.array(np.cumsum(steps[:-1]).astype(bool)))


@dataclass(frozen=True, slots=True)
class Settled:
    """Settled offsets of one queue, from a checkpoint.

    Attributes:
        generation: Generation of the checkpoint; 0 if there is none.
        rounds: Rounds of it that were read; with the generation they identify the state.
        written_at_ns: Time of the last write to its newest file, nanoseconds since 1970 in UTC; 0
            if there is no file.
        ranges: Settled offsets as ordered ranges `[start, end)` that do not touch.
    """

    generation: int
    rounds: int
    written_at_ns: int
    ranges: tuple[Range, ...]

    def choose(self, include: Include, end: int) -> OffsetChoice | None:
        """Return the wanted offsets below `end`; None means all of them."""
        if include is Include.ALL:
            return None
        settled = OffsetChoice(self.ranges).clip(0, end)
        if include is Include.ACKED:
            return settled
        return OffsetChoice(tuple(subtract_ranges([(0, end)], settled.ranges)))


class ReadOnce:
    """Checkpoint of one data directory, for all queues; read at the first use and kept."""

    def __init__(self) -> None:
        self._found: CheckpointRecovery | None = None

    def read(self, storage_path: Path, filesystem: FileSystem) -> CheckpointRecovery:
        """Return the checkpoint as the first call found it.

        Raises:
            OffsetsError: The checkpoint cannot be read.
            OSError: A file cannot be read.
        """
        if self._found is None:
            self._found = read_checkpoint(storage_path / OFFSETS_FOLDER, filesystem)
        return self._found


def read_settled(storage_path: Path, log: QueueLog, checkpoint: ReadOnce | None = None) -> Settled:
    """Return the settled offsets of a queue. Reads only: the broker may be running.

    Args:
        storage_path: Data directory.
        log: Log of the queue.
        checkpoint: Checkpoint of this data directory, shared by a plan of several queues.

    Raises:
        SettlementError: The queue is a stream, in which nothing is ever settled, or the checkpoint
            cannot be read.
    """
    if _is_stream(storage_path, log):
        raise SettlementError(
            f"queue {log.queue!r} is a stream: nothing of it is ever settled, "
            "each of its groups has a place of its own; all of it can be read"
        )
    try:
        found = (checkpoint or ReadOnce()).read(storage_path, log.filesystem)
    except (OffsetsError, OSError) as error:
        raise SettlementError(f"the checkpoint cannot be read: {error}") from error
    entry = found.entries.get(log.incarnation.bytes)
    written_at_ns = max((_modified_ns(path) for path in found.sources), default=0)
    if entry is None:
        return Settled(found.generation, found.rounds, written_at_ns, ())
    state = decode_checkpoint(entry)
    ranges = join_ranges([(0, state.ack_floor), *state.acked_ranges])
    return Settled(found.generation, found.rounds, written_at_ns, tuple(ranges))


def _is_stream(storage_path: Path, log: QueueLog) -> bool:
    path = document_path(storage_path / "metadata", QUEUES, log.vhost, log.queue)
    try:
        body: dict[str, Any] = decode_document(
            log.filesystem.read_file(path, DOCUMENT_BYTES_MAX), accepts_unsigned=True
        ).body
    except (OSError, DocumentFormatError):
        return False
    return bool(body.get("arguments", {}).get("x-queue-type") == "stream")


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
