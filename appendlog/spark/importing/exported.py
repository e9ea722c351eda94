"""What an output has: queues, and their rows in the order of offsets.

Each kind of output is one class; nothing is written by any of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from appendlog.spark.errors import OutputError
from appendlog.spark.planning.ranges import Range

MESSAGES: Final = pa.schema(
    [("offset", pa.int64()), ("envelope", pa.large_binary()), ("value", pa.large_binary())]
)
"""What is needed of a row to make its message again."""
MESSAGE_COLUMNS: Final = MESSAGES.names


@dataclass(frozen=True, slots=True)
class ExportedQueue:
    """A queue in an output.

    Attributes:
        vhost: Virtual host, as the rows have it.
        queue: Name, likewise.
        identity: Names the queue that was exported, wherever the output is: its incarnation
            where the output tells it.
        covered: Offsets of it that the output has, or accounts for; in order and disjoint.
    """

    vhost: str
    queue: str
    identity: str
    covered: tuple[Range, ...]


class NoEnvelopeError(OutputError):
    """Rows without the bytes that a message needs beside its body."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where}: no column `envelope`: written by an amqp-server before it had one, or "
            "left out since; without it a message cannot be made as it was. Export it again"
        )


class Exported(Protocol):
    """An output that is read."""

    def queues(self) -> Sequence[ExportedQueue]:
        """Return the queues in it, by virtual host and name.

        Raises:
            OutputError: It cannot be read.
        """
        ...

    def rows(self, queue: ExportedQueue, start: int, end: int) -> Iterator[pa.Table]:
        """Yield the rows of a queue with offsets in `[start, end)`, in their order.

        Yields:
            Tables of `MESSAGES`, not empty; a few MiB each, or one row if that is larger.

        Raises:
            NoEnvelopeError: Messages cannot be made of the rows.
            OutputError: They cannot be read.
        """
        ...


def within(rows: pa.Table, start: int, end: int) -> pa.Table:
    """Return the rows with offsets in `[start, end)`.

    Args:
        rows: In the order of their offsets, at least one.
        start: Inclusive.
        end: Exclusive.
    """
    offsets = rows.column("offset")
    if start <= offsets[0].as_py() and offsets[-1].as_py() < end:
        return rows
    return rows.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end)))
