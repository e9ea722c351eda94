"""Splits of logs put together to partitions of about one size, each the work of one task.

Spark's price for a partition is some ten milliseconds: a thousand small segments of a hundred
queues must not become a thousand of them, nor one large segment a single one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from appendlog.spark.planning.queues import QueueLog
from appendlog.split_reader import Split

PARTITION_BYTES: Final = 64 << 20
"""Of log, by default."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A split of a log and whose it is. Plain data, picklable.

    Attributes:
        log: Where to read.
        split: What to read.
    """

    log: QueueLog
    split: Split

    @property
    def size_bytes(self) -> int:
        """Return how much of the log it is, as far as the index tells."""
        return max(self.split.end_position - self.split.start_position, 0)


Partition = tuple[LogPiece, ...]
"""Pieces that one task reads, one after the other; at least one."""


def plan_partitions(
    cut: Callable[[int], list[LogPiece]],
    partition_bytes: int = PARTITION_BYTES,
    min_partitions: int = 1,
) -> list[Partition]:
    """Return partitions of the same pieces in the same order, whoever asks again.

    Args:
        cut: Returns what is to be read in pieces of about as many bytes as it is told; their
            sizes only depend on the log, so the partitions do too.
        partition_bytes: Size to aim at, >= 1.
        min_partitions: At least about so many if there is enough to read, >= 1.
    """
    pieces = cut(partition_bytes)
    all_bytes = sum(piece.size_bytes for piece in pieces)
    if all_bytes < partition_bytes * min_partitions and min_partitions > 1:
        partition_bytes = max(all_bytes // min_partitions, 1)
        pieces = cut(partition_bytes)
    return pack(pieces, partition_bytes)


def pack(pieces: Iterable[LogPiece], partition_bytes: int) -> list[Partition]:
    """Put neighbours together as long as they are not too large. Keeps the order.

    Args:
        pieces: What is to be read.
        partition_bytes: Only a piece that is larger by itself makes a larger partition.
    """
    partitions: list[Partition] = []
    waiting: list[LogPiece] = []
    waiting_bytes = 0
    for piece in pieces:
        if waiting and waiting_bytes + piece.size_bytes > partition_bytes:
            partitions.append(tuple(waiting))
            waiting, waiting_bytes = [], 0
        waiting.append(piece)
        waiting_bytes += piece.size_bytes
    if waiting:
        partitions.append(tuple(waiting))
    return partitions
