"""Reads a table: its files, the notes of exports in its history, and its offsets."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from appendlog.spark.planning.ranges import Range

ROW_IDENTITY: Final = ("vhost", "topic", "offset")
"""Columns that identify the message of a row."""


@dataclass(frozen=True, slots=True)
class FileInTable:
    """A file of the current version of a table.

    Attributes:
        path: Path in the store of the table; None if the file is elsewhere.
        name: Name in the table's metadata.
        size_bytes: Size in bytes according to the table.
        rows: Number of rows.
        offsets: Offsets of its rows, `[lowest, highest + 1)`; None if the table does not have them.
        queue: Virtual host and name of the queue; None if the table does not have them, or the rows
            are of several queues.
    """

    path: str | None
    name: str
    size_bytes: int
    rows: int
    offsets: Range | None
    queue: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class CommitNote:
    """Note of an export in the table's history; see `commit_note`.

    Attributes:
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        incarnation: Identity of the queue, as text.
        ranges: Offsets that the export added.
        rows: Number of rows that it added.
        gaps: First ranges of offsets that the log did not have.
        corrupt: First ranges of offsets in damaged parts of the log.
        include: Messages that the user asked for: `all`, `acked` or `unacked`.
        created: Time of the commit, ISO 8601 in UTC.
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
        """Return the note from plain values.

        Args:
            values: Values that `commit_note` returned.
            created_ms: Time of the commit, milliseconds since 1970 in UTC.
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
    """State of a queue in a table.

    Attributes:
        vhost: Virtual host of the queue.
        queue: Name of the queue.
        incarnation: Identity of the queue, as text; None if only expired notes had it.
        end: End of its offsets, exclusive; None likewise.
        notes: Notes of its commits, the oldest first.
        is_whole: Whether there are notes of all commits.
    """

    vhost: str
    queue: str
    incarnation: str | None
    end: int | None
    notes: tuple[CommitNote, ...]
    is_whole: bool


class TableContents(Protocol):
    """One version of a table; other programs may add newer versions.

    Attributes:
        url: URL of the table.
        cleaned_by: Name of the operation that removes files without a version, for messages.
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
        """Read all rows, in any order; a few batches are in memory at a time.

        Args:
            is_whole: Whether to read all columns, or only those of `ROW_IDENTITY`.

        Raises:
            OutputError: The rows cannot be read.
        """
        ...


def notes_of(
    notes: Sequence[CommitNote],
) -> dict[tuple[str, str], tuple[CommitNote, ...]]:
    """Return the notes of each queue's newest incarnation.

    Args:
        notes: Notes of all queues, the oldest first.
    """
    found: dict[tuple[str, str], tuple[CommitNote, ...]] = {}
    for note in notes:
        key = (note.vhost, note.queue)
        before = found.get(key, ())
        is_same = bool(before) and before[-1].incarnation == note.incarnation
        found[key] = (*before, note) if is_same else (note,)
    return found


def offsets_between(low: tuple[Any, ...], high: tuple[Any, ...]) -> Range | None:
    """Return the offsets of a file from the bounds of its columns; None without bounds."""
    if low[2] is None or high[2] is None:
        return None
    return (low[2], high[2] + 1)


def queue_between(low: tuple[Any, ...], high: tuple[Any, ...]) -> tuple[str, str] | None:
    """Return virtual host and queue of a file from such bounds; None unless there is one queue."""
    if None in low[:2] or low[:2] != high[:2]:
        return None
    return (low[0], low[1])
