"""Reads outputs: their queues, and the rows of a queue in the order of offsets.

Each kind of output has a class. None of them writes.
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
"""Columns of a row from which its message can be made again."""
MESSAGE_COLUMNS: Final = MESSAGES.names


@dataclass(frozen=True, slots=True)
class ExportedQueue:
    """A queue in an output.

    Attributes:
        vhost: Virtual host, as the rows have it.
        queue: Name of the queue, as the rows have it.
        identity: Identifies the exported queue: its incarnation, if the output has it.
        covered: Offsets that the output has, or accounts for; ordered, disjoint ranges.
    """

    vhost: str
    queue: str
    identity: str
    covered: tuple[Range, ...]


class NoEnvelopeError(OutputError):
    """The rows lack the column `envelope`, so that no messages can be made of them."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where}: no column `envelope`: written by an amqp-server before it had one, or "
            "left out since; without it a message cannot be made as it was. Export it again"
        )


class Exported(Protocol):
    """An output of exports, for reads."""

    def queues(self) -> Sequence[ExportedQueue]:
        """Return the queues of the output, by virtual host and name.

        Raises:
            OutputError: The output cannot be read.
        """
        ...

    def rows(self, queue: ExportedQueue, start: int, end: int) -> Iterator[pa.Table]:
        """Yield the rows of a queue with offsets in `[start, end)`, in their order.

        Yields:
            Tables with the columns `MESSAGES`, not empty; each a few MiB, or one larger row.

        Raises:
            NoEnvelopeError: The rows lack the column `envelope`.
            OutputError: The rows cannot be read.
        """
        ...


def within(rows: pa.Table, start: int, end: int) -> pa.Table:
    """Return the rows with offsets in `[start, end)`.

    Args:
        rows: At least one row, in the order of offsets.
        start: First offset.
        end: End of the range, exclusive.
    """
    offsets = rows.column("offset")
    if start <= offsets[0].as_py() and offsets[-1].as_py() < end:
        return rows
    return rows.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end)))
