"""Plans an import, and turns rows into messages, in batches of offsets."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

import pyarrow as pa

from appendlog.layout.message import PERSISTENT
from appendlog.spark.errors import OutputError
from appendlog.spark.importing.exported import Exported, ExportedQueue
from appendlog.spark.planning.ranges import Range, subtract_ranges

OnProgress = Callable[[int, int], None]
"""Called with the numbers of messages and offsets done, in the thread of the import."""


class MessageSink(Protocol):
    """Queue that an import appends to."""

    def append(self, messages: Sequence[bytes], start: int, end: int) -> None:
        """Append a batch durably: the messages with offsets in `[start, end)`."""
        ...


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """Limits of a batch.

    Attributes:
        bytes_max: Most bytes of messages; a single message may be larger.
        messages_max: Most messages.
    """

    bytes_max: int
    messages_max: int


@dataclass(slots=True)
class Imported:
    """Result of an import.

    Attributes:
        messages: Messages that were appended.
        bytes: Bytes of these messages.
        skipped: Messages of an interrupted batch that the queue had already.
    """

    messages: int = 0
    bytes: int = 0
    skipped: int = 0


def missing_ranges(
    queue: ExportedQueue,
    done: Sequence[Range],
    partial: Mapping[int, int],
    since: int | None,
    until: int | None,
) -> list[Range]:
    """Return the offsets to import: those of the output without those that were imported.

    Args:
        queue: Queue in the output.
        done: Ranges that were imported.
        partial: Starts of interrupted batches; each begins a range of its own.
        since: First offset that the user asks for; None for no bound.
        until: End of the offsets that the user asks for, exclusive; None for no bound.

    Raises:
        OutputError: The user asks for offsets after an interrupted batch, but not for the batch.
    """
    low = since or 0
    wanted = [
        (max(start, low), end if until is None else min(end, until)) for start, end in queue.covered
    ]
    missing = subtract_ranges([each for each in wanted if each[0] < each[1]], done)
    for cut in partial:
        behind = next(((start, end) for start, end in missing if end > cut), None)
        if behind is not None and cut < behind[0]:
            if not subtract_ranges([(cut, behind[0])], done):
                continue
            raise OutputError(
                f"a batch from offset {cut} on was cut short, of which some messages have come: "
                f"import from there on (--since {cut})"
            )
    cuts = sorted(partial)
    return [
        piece
        for start, end in missing
        for piece in _split(start, end, [cut for cut in cuts if start < cut < end])
    ]


def _split(start: int, end: int, cuts: Sequence[int]) -> list[Range]:
    bounds = [start, *cuts, end]
    return list(pairwise(bounds))


def import_range(
    rows: Iterator[pa.Table],
    wanted: Range,
    sink: MessageSink,
    bounds: BatchBounds,
    to_skip: int,
    *,
    counts_all: bool,
) -> Iterator[Imported]:
    """Append the messages of a range; yield the outcome of each batch.

    Args:
        rows: Rows of the range, in order.
        wanted: Range to import; the sink gets all of its offsets, also those without a row.
        sink: Queue to append to.
        bounds: Limits of a batch.
        to_skip: Messages from the start of the range that the sink has from an interrupted batch.
        counts_all: Whether `to_skip` counts transient messages too, or only persistent ones.

    Raises:
        OutputError: The range does not have all of an interrupted batch.
    """
    start, end = wanted
    batch: list[bytes] = []
    size = skipped = 0
    for offset, message in _messages(rows):
        is_full = size + len(message) > bounds.bytes_max or len(batch) == bounds.messages_max
        if batch and is_full:
            sink.append(batch, start, offset)
            yield Imported(len(batch), size, skipped)
            start = offset
            batch = []
            size = 0
            skipped = 0
        if to_skip:
            to_skip -= counts_all or bool(message[0] & PERSISTENT)
            skipped += 1
            continue
        batch.append(message)
        size += len(message)
    if to_skip:
        raise OutputError(
            f"messages from offset {start} on were already imported, up to some behind {end}: "
            "import them without --until"
        )
    sink.append(batch, start, end)
    yield Imported(len(batch), size, skipped)


def count_messages(exported: Exported, queue: ExportedQueue, ranges: Sequence[Range]) -> Imported:
    """Return the number of messages and bytes that would be imported."""
    found = Imported()
    for start, end in ranges:
        for _, message in _messages(exported.rows(queue, start, end)):
            found.messages += 1
            found.bytes += len(message)
    return found


def _messages(rows: Iterator[pa.Table]) -> Iterator[tuple[int, bytes]]:
    for table in rows:
        columns = (table.column(name).to_pylist() for name in _ORDER)
        for offset, envelope, body in zip(*columns, strict=True):
            yield offset, envelope + body


_ORDER: Final = ("offset", "envelope", "value")
