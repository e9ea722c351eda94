"""What a table says of itself: its files, what exports have noted in it, and its offsets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from appendlog.spark.planning.ranges import Range

ROW_IDENTITY: Final = ("vhost", "topic", "offset")
"""Columns that say which message a row is."""


@dataclass(frozen=True, slots=True)
class FileInTable:
    """A file that the table's current version has.

    Attributes:
        path: In the store of the table; None when it is elsewhere.
        name: As the table calls it.
        size_bytes: That it has to have.
        rows: In it.
        offsets: Of its rows, `[lowest, highest + 1)`; None: the table does not say.
        queue: Virtual host and name, if its rows are all of one queue and the table says so.
    """

    path: str | None
    name: str
    size_bytes: int
    rows: int
    offsets: Range | None
    queue: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class CommitNote:
    """What the table's history says of a commit of an export; see `commit_note`.

    Attributes:
        vhost: Virtual host of the queue.
        queue: The queue.
        incarnation: Of it, as text.
        ranges: Offsets that it added.
        rows: That it added.
        gaps: Offsets that the log did not have, the first of them.
        corrupt: Offsets in damaged parts of the log, the first of them.
        include: Which messages were asked for.
        created: When, ISO 8601 in UTC.
    """

    vhost: str
    queue: str
    incarnation: str
    ranges: tuple[Range, ...]
    rows: int
    gaps: tuple[Range, ...]
    corrupt: tuple[Range, ...]
    include: str
    created: str

    @classmethod
    def of(cls, values: Mapping[str, Any], created_ms: int) -> Self:
        """Return the note of plain values.

        Args:
            values: As `commit_note` gave them.
            created_ms: Milliseconds since 1970 in UTC.
        """
        ranges, gaps, corrupt = (
            tuple((start, end) for start, end in values[name])
            for name in ("ranges", "gaps", "corrupt")
        )
        time = datetime.fromtimestamp(created_ms / 1000, UTC)
        return cls(
            vhost=values["vhost"],
            queue=values["queue"],
            incarnation=values["incarnation"],
            ranges=ranges,
            rows=values["rows"],
            gaps=gaps,
            corrupt=corrupt,
            include=values["include"],
            created=time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )


@dataclass(frozen=True, slots=True)
class QueueState:
    """How far a queue is in a table.

    Attributes:
        vhost: Virtual host of the queue.
        queue: The queue.
        incarnation: Of it, as text; None: only its notes said it, and they are gone.
        end: End of its offsets; None likewise.
        notes: Of its commits, the oldest first.
        is_whole: Whether the notes are those of all commits.
    """

    vhost: str
    queue: str
    incarnation: str | None
    end: int | None
    notes: tuple[CommitNote, ...]
    is_whole: bool


class TableContents(Protocol):
    """One version of a table, which others may add to meanwhile.

    Attributes:
        url: Of the table.
        cleaned_by: What removes files that no version needs, in the words of its users.
    """

    url: str
    cleaned_by: str

    def queues(self) -> Sequence[QueueState]:
        """Return the queues that exports have added, by virtual host and name.

        Raises:
            OutputError: The table cannot be read.
        """
        ...

    def files(self) -> Sequence[FileInTable]:
        """Return the files of the table.

        Raises:
            OutputError: The table cannot be read.
        """
        ...

    def rows(self, *, is_whole: bool) -> Iterator[pa.RecordBatch]:
        """Read all rows, in any order; a few batches are in memory.

        Args:
            is_whole: Whether to read all columns, or only those of `ROW_IDENTITY`.

        Raises:
            OutputError: They cannot be read.
        """
        ...


def notes_of(
    notes: Sequence[CommitNote],
) -> dict[tuple[str, str], tuple[CommitNote, ...]]:
    """Return the notes of each queue's newest incarnation.

    Args:
        notes: The oldest first.
    """
    found: dict[tuple[str, str], tuple[CommitNote, ...]] = {}
    for note in notes:
        key = (note.vhost, note.queue)
        before = found.get(key, ())
        is_same = bool(before) and before[-1].incarnation == note.incarnation
        found[key] = (*before, note) if is_same else (note,)
    return found


def offsets_between(low: tuple[Any, ...], high: tuple[Any, ...]) -> Range | None:
    """Return the offsets of a file from the bounds of its `ROW_IDENTITY`, where there are any."""
    if low[2] is None or high[2] is None:
        return None
    return (low[2], high[2] + 1)


def queue_between(low: tuple[Any, ...], high: tuple[Any, ...]) -> tuple[str, str] | None:
    """Return virtual host and queue of a file from such bounds, if it is one and they are known."""
    if None in low[:2] or low[:2] != high[:2]:
        return None
    return (low[0], low[1])
