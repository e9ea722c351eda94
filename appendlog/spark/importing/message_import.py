"""What an import has to do, and doing it: rows become messages, in batches of their offsets."""

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
"""Called with messages and offsets done so far, from the thread that imports."""


class MessageSink(Protocol):
    """What takes messages."""

    def append(self, messages: Sequence[bytes], start: int, end: int) -> None:
        """Take a batch for good: the messages with offsets in `[start, end)`."""
        ...


@dataclass(frozen=True, slots=True)
class BatchBounds:
    """How large a batch may be.

    Attributes:
        bytes_max: Of its messages; one alone may be larger.
        messages_max: How many.
    """

    bytes_max: int
    messages_max: int


@dataclass(slots=True)
class Imported:
    """What an import has done.

    Attributes:
        messages: Put into the queue.
        bytes: Of them.
        skipped: Messages that had come already, of a batch that was cut short.
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
    """Return the offsets that are to come: those of the output, less what has come.

    Args:
        queue: In the output.
        done: What has come.
        partial: Where batches began that were cut short; each begins a range of its own.
        since: First offset that is asked for; None for all.
        until: End, exclusive; None for all.

    Raises:
        OutputError: A batch that was cut short is not asked for, but what follows it is.
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
    """Hand the messages of a range over; yield what was done with each batch.

    Args:
        rows: Of the range, in order.
        wanted: The range; all of it is told to the sink, also where it has no row.
        sink: Takes messages.
        bounds: Of a batch.
        to_skip: How many messages of a batch from the range's start on the sink has, because it
            was cut short.
        counts_all: Whether that counts transient messages; else only persistent ones.

    Raises:
        OutputError: A batch that was cut short is not in the range as a whole.
    """
    start, end = wanted
    batch: list[bytes] = []
    size = skipped = 0
    for offset, message in _messages(rows):
        is_full = size + len(message) > bounds.bytes_max or len(batch) == bounds.messages_max
        if batch and is_full:
            sink.append(batch, start, offset)
            yield Imported(len(batch), size, skipped)
            start, batch, size, skipped = offset, [], 0, 0
        if to_skip:
            to_skip -= counts_all or bool(message[0] & PERSISTENT)
            skipped += 1
            continue
        batch.append(message)
        size += len(message)
    if to_skip:
        raise OutputError(
            f"of the messages from offset {start} on some have come that lie behind {end}: "
            "import them without --until"
        )
    sink.append(batch, start, end)
    yield Imported(len(batch), size, skipped)


def count_messages(exported: Exported, queue: ExportedQueue, ranges: Sequence[Range]) -> Imported:
    """Return what would be imported."""
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
