"""Which messages of a queue are settled, as of its last checkpoint, and the choice among them.

A queue consumes: what its log holds is not what it still has to deliver. The broker writes what
is settled (acked, rejected, expired, dropped) to the checkpoint every few seconds; it may lag
behind the truth and never leads it. So `acked` never has a message that is still to be
delivered, and `unacked` may have some that were settled since that checkpoint.

A choice is ranges of offsets, fixed once when a job is planned: all of its tasks agree.
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
    """Which messages are wanted."""

    ALL = "all"
    ACKED = "acked"
    UNACKED = "unacked"


@dataclass(frozen=True, slots=True)
class OffsetChoice:
    """The offsets that are wanted; picklable.

    Attributes:
        ranges: Half-open, ascending, not touching.
    """

    ranges: tuple[Range, ...]

    def clip(self, start: int, end: int) -> "OffsetChoice":
        """Return what of it lies in `[start, end)`."""
        first = bisect_right(self.ranges, start, key=lambda each: each[1])
        last = bisect_left(self.ranges, end, key=lambda each: each[0])
        inside = self.ranges[first:last]
        return OffsetChoice(tuple((max(low, start), min(high, end)) for low, high in inside))

    def count(self, start: int, end: int) -> int:
        """Return how many offsets of `[start, end)` are wanted."""
        return offsets_in(self.clip(start, end).ranges)

    def among(self, ranges: Sequence[Range]) -> list[Range]:
        """Return what of some ranges is wanted, in their order."""
        return [part for start, end in ranges for part in self.clip(start, end).ranges]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted rows of a batch; it needs a column `offset`, ascending.

        Copies nothing where all or a run of the rows is wanted.
        """
        if not batch.num_rows:
            return batch
        offsets = batch.column("offset").to_numpy()
        wanted = self.clip(int(offsets[0]), int(offsets[-1]) + 1).ranges
        edges = np.searchsorted(offsets, np.array(wanted, dtype=np.int64).reshape(-1))
        # Row numbers now, half-open; wanted offsets that have no row leave empty ones.
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
    """What a checkpoint says of one queue.

    Attributes:
        generation: Of the checkpoint; 0 when there is none.
        rounds: How many rounds of it were read: with the generation it names the state.
        written_at_ns: When its newest file was written to, nanoseconds since 1970 UTC; 0: never.
        ranges: Settled offsets, half-open, ascending, not touching; from 0 on.
    """

    generation: int
    rounds: int
    written_at_ns: int
    ranges: tuple[Range, ...]

    def choose(self, include: Include, end: int) -> OffsetChoice | None:
        """Return which offsets below `end` are wanted; None means all of them."""
        if include is Include.ALL:
            return None
        settled = OffsetChoice(self.ranges).clip(0, end)
        if include is Include.ACKED:
            return settled
        return OffsetChoice(tuple(subtract_ranges([(0, end)], settled.ranges)))


class ReadOnce:
    """The checkpoint of one data directory as of its first use: it has all queues at once."""

    def __init__(self) -> None:
        self._found: CheckpointRecovery | None = None

    def read(self, storage_path: Path, filesystem: FileSystem) -> CheckpointRecovery:
        """Return what the checkpoint says, as of the first call.

        Raises:
            OffsetsError: It is not readable.
            OSError: A file cannot be read.
        """
        if self._found is None:
            self._found = read_checkpoint(storage_path / OFFSETS_FOLDER, filesystem)
        return self._found


def read_settled(storage_path: Path, log: QueueLog, checkpoint: ReadOnce | None = None) -> Settled:
    """Return what the checkpoint says of a queue. Reads only; the broker may be running.

    Args:
        storage_path: The data directory.
        log: Of the queue.
        checkpoint: Of this data directory, for a plan of several queues.

    Raises:
        SettlementError: The queue is a stream, which settles nothing, or the checkpoint cannot
            be read.
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
