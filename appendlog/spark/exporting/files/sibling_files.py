"""Writes the files of one range of offsets: siblings, one for each folder that rows belong into.

Without fields to divide by there is one folder, and so one file. The first of the siblings accounts
for the offsets of the range that are no rows.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import BinaryIO, Final, Self, cast

import pyarrow as pa
import pyarrow.compute as pc

from appendlog.spark.exporting.destination import WrittenFile
from appendlog.spark.exporting.files.counted_file import CountedFile
from appendlog.spark.exporting.files.file_format import FileFormat
from appendlog.spark.exporting.files.row_groups import OffsetAccount
from appendlog.spark.exporting.layout import part_name
from appendlog.spark.exporting.partition_fields import RowsOfFolder
from appendlog.spark.exporting.stores.store import OutputStore

OPEN_FILES_MAX: Final = 100
"""Most files that grow side by side: each has a descriptor, or a temporary file."""

_NS_PER_US: Final = 1000


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Where and how files are written.

    Attributes:
        store: Store to write to.
        folder: Folder of the store for unfinished files.
        file_format: Format of the files.
        subfolder: Final folder of the files, below that of the queue: `date=2026-11-21/`, or empty.
        metadata: Attributes of every file.
        has_siblings: Whether rows are divided by fields, so that files have numbers.
    """

    store: OutputStore
    folder: str
    file_format: FileFormat
    subfolder: str
    metadata: Mapping[str, str]
    has_siblings: bool


class SiblingFiles:
    """Files of one range that grow side by side; a context, which leaves no file open.

    Args:
        place: Where the files go.
    """

    def __init__(self, place: FilePlace) -> None:
        self._place = place
        self._files: dict[str, _GrowingFile] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert error is not None or not self._files, "finished, or failed"
        for file in self._files.values():
            file.discard(kind, error, traceback)

    @property
    def largest_bytes(self) -> int:
        """Return the size of the largest file in bytes."""
        return max((file.size_bytes for file in self._files.values()), default=0)

    def has_room_for(self, divided: Sequence[RowsOfFolder]) -> bool:
        """Return whether some more rows need at most `OPEN_FILES_MAX` files with the others."""
        folders = {each.folder for each in divided}
        return len(self._files.keys() | folders) <= OPEN_FILES_MAX

    def write(self, divided: Sequence[RowsOfFolder]) -> None:
        """Append rows, each to the file of its folder."""
        for each in divided:
            if each.folder not in self._files:
                self._files[each.folder] = _GrowingFile(self._place, each)
            self._files[each.folder].write(each.rows)

    def finish(self, account: OffsetAccount) -> list[WrittenFile]:
        """Make all files whole and durable; return them in the order of their folders.

        Args:
            account: Account of the range, with the rows of all files.
        """
        count = len(self._files)
        return [
            self._files.pop(folder).finish(account, number, count)
            for number, folder in enumerate(sorted(self._files))
        ]


def write_one_by_one(
    place: FilePlace, divided: Sequence[RowsOfFolder], account: OffsetAccount
) -> Iterator[WrittenFile]:
    """Write files of a range whose rows are all there, one after another, in their order.

    Args:
        place: Where the files go.
        divided: All rows of the range.
        account: Account of the range.
    """
    for number, each in enumerate(divided):
        file = _GrowingFile(place, each)
        try:
            file.write(each.rows)
        except BaseException as error:
            file.discard(type(error), error, error.__traceback__)
            raise
        yield file.finish(account, number, len(divided))


class _GrowingFile:
    """A file that rows of one folder are appended to.

    Args:
        place: Where it goes.
        first: First rows, which are not written yet.
    """

    def __init__(self, place: FilePlace, first: RowsOfFolder) -> None:
        self._place = place
        self._folder = first.folder
        self._path = f"{place.folder}/{uuid.uuid4().hex}.{place.file_format.extension}"
        with ExitStack() as opening:
            self._file = CountedFile(opening.enter_context(place.store.open_new(self._path)))
            self._writer = place.file_format.open(cast("BinaryIO", self._file), first.rows.schema)
            self._stored = opening.pop_all()
        self._rows = 0
        self._times_us: list[int] = []

    @property
    def size_bytes(self) -> int:
        """Return the bytes that are written so far."""
        return self._file.size_bytes

    def write(self, rows: pa.Table) -> None:
        """Append a group of rows."""
        self._writer.write(rows)
        self._rows += rows.num_rows
        found = pc.min_max(rows.column("timestamp").cast(pa.int64()))
        self._times_us += found["min"].as_py(), found["max"].as_py()

    def finish(self, account: OffsetAccount, number: int, count: int) -> WrittenFile:
        """Make the file whole and durable.

        Args:
            account: Account of the range, with the rows of all files.
            number: Number of the file among those of the range, from 0.
            count: Number of these files.
        """
        start, end = account.start_offset, account.end_offset
        mine = OffsetAccount(start, end, self._rows)
        if number == 0:
            mine = replace(account, rows=self._rows)
        with self._stored:
            try:
                self._writer.close({**self._place.metadata, **_summary(mine, count)})
            except BaseException:
                self._writer.discard()
                raise
        sibling = number if self._place.has_siblings else None
        extension = self._place.file_format.extension
        return WrittenFile(
            path=self._path,
            target=self._place.subfolder + self._folder + part_name(start, end, extension, sibling),
            start_offset=start,
            end_offset=end,
            rows=self._rows,
            size_bytes=self._file.size_bytes,
            sha256=self._file.sha256,
            min_timestamp_ns=min(self._times_us) * _NS_PER_US,
            max_timestamp_ns=max(self._times_us) * _NS_PER_US,
            missing=mine.missing,
            corrupt=mine.corrupt,
            excluded=mine.excluded,
        )

    def discard(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the file, because of an error."""
        self._writer.discard()
        self._stored.__exit__(kind, error, traceback)


def _summary(account: OffsetAccount, siblings: int) -> dict[str, str]:
    return {
        "amqplog.start_offset": str(account.start_offset),
        "amqplog.end_offset": str(account.end_offset),
        "amqplog.files": str(siblings),
        "amqplog.rows": str(account.rows),
        "amqplog.missing": str(account.missing),
        "amqplog.corrupt": str(account.corrupt),
        "amqplog.excluded": str(account.excluded),
        "amqplog.gaps": json.dumps(account.gaps),
        "amqplog.undecodable": str(account.undecodable),
    }
