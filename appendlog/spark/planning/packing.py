"""Puts splits of logs together into partitions of about one size; a task reads one partition.

A partition costs Spark some ten milliseconds. So a thousand small segments of a hundred queues must
not become a thousand partitions, and one large segment must not become a single one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from appendlog.spark.planning.queues import QueueLog
from appendlog.split_reader import Split

PARTITION_BYTES: Final = 64 << 20
"""Default size of a partition, in bytes of log."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A split and the log that it is of; plain data, picklable.

    Attributes:
        log: Log to read.
        split: Part of the log to read.
    """

    log: QueueLog
    split: Split

    @property
    def size_bytes(self) -> int:
        """Return its size in bytes of log, estimated from the index."""
        return max(self.split.end_position - self.split.start_position, 0)


Partition = tuple[LogPiece, ...]
"""Pieces that one task reads, one after another; at least one."""


def plan_partitions(
    cut: Callable[[int], list[LogPiece]],
    partition_bytes: int = PARTITION_BYTES,
    min_partitions: int = 1,
) -> list[Partition]:
    """Return the partitions of a read; the same read always has the same partitions.

    Args:
        cut: Returns what is to be read, in pieces of about the given number of bytes. The pieces
            depend on the log only.
        partition_bytes: Intended size of a partition in bytes, >= 1.
        min_partitions: Least number of partitions, if there is enough to read; >= 1.
    """
    pieces = cut(partition_bytes)
    all_bytes = sum(piece.size_bytes for piece in pieces)
    if all_bytes < partition_bytes * min_partitions and min_partitions > 1:
        partition_bytes = max(all_bytes // min_partitions, 1)
        pieces = cut(partition_bytes)
    return pack(pieces, partition_bytes)


def pack(pieces: Iterable[LogPiece], partition_bytes: int) -> list[Partition]:
    """Join neighbours into partitions, in their order.

    Args:
        pieces: Pieces to join.
        partition_bytes: Largest size of a partition of several pieces.
    """
    partitions: list[Partition] = []
    waiting: list[LogPiece] = []
    waiting_bytes = 0
    for piece in pieces:
        if waiting and waiting_bytes + piece.size_bytes > partition_bytes:
            partitions.append(tuple(waiting))
            waiting = []
            waiting_bytes = 0
        waiting.append(piece)
        waiting_bytes += piece.size_bytes
    if waiting:
        partitions.append(tuple(waiting))
    return partitions
