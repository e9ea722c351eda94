"""Following a log from any process: reading on as its writer makes more of it durable."""

from pathlib import Path

from appendlog.errors import LogError, LogFailedError
from appendlog.files.filesystem import FileSystem
from appendlog.reader import LogReader
from appendlog.segments.durable_end import read_durable_end
from appendlog.segments.log_reads import LogReads
from appendlog.segments.read_result import ReadResult
from appendlog.segments.segment import Segment, SegmentName
from appendlog.segments.segment_list import SegmentList

_LOOKS_MAX = 8
"""How often a read looks again because retention was faster. It is never so fast for long."""


class LogFollower(LogReader):
    """A `LogReader` that can look again. Not thread-safe.

    Args:
        directory: As for `LogReader`.
        filesystem: As for `LogReader`.
        skip_damage: As for `LogReader`.

    Raises:
        UnsupportedFormatError: As for `LogReader`, and so on.
    """

    _tells_of_lost_ends = False  # it waits there: they may come back, and are read then

    def __init__(
        self, directory: Path, filesystem: FileSystem | None = None, skip_damage: bool = True
    ) -> None:
        self._known: dict[SegmentName, Segment] = {}
        self._listed = SegmentList()
        self._reads: LogReads | None = None
        # A look that an exception of a signal handler has cut short may have left the end of a
        # later look beside the segments of an earlier one: a read would pass over what is between.
        self._is_whole = False
        super().__init__(directory, filesystem, skip_damage)
        self._settle()

    def refresh(self, *, is_thorough: bool = False) -> bool:
        """Look again; return whether there may be more, or less, than before.

        Costs one small read while nothing became durable; else the listing of the directory, and
        a footer for each segment that was sealed since.

        Args:
            is_thorough: List the directory in any case: retention shows nowhere else.

        Raises:
            UnsupportedFormatError: As for `LogReader`, and so on.
        """
        knows_enough = self._is_whole and not is_thorough
        if knows_enough and self._durable is not None and self.identity is not None:
            incarnation = self.identity.incarnation
            durable = read_durable_end(self._filesystem, self.directory, incarnation)
            if durable is not None and durable.generation == self._durable.generation:
                return False
        self._look_again()
        return True

    def read_batch(self, offset: int, max_records: int, max_bytes: int) -> ReadResult:
        """Return records from the first one at or after `offset`, below the durable end.

        Where one batch ended the next begins without a search. Does not look again by itself,
        unless what it is about to read was removed meanwhile.

        Args:
            offset: Where to begin; below the log's start means there.
            max_records: >= 1.
            max_bytes: Of messages, >= 1; one record is always returned if there is one.

        Returns:
            The records, and where to read on; nothing, and `offset` again, at the durable end, and
            when the log was deleted.

        Raises:
            ValueError: `max_records` or `max_bytes` is below 1.
            LogFailedError: A file cannot be read.
            CorruptRecordError: Damage, unless it is to be skipped.
        """
        if max_records < 1 or max_bytes < 1:
            # Nothing would ever come of it, and whoever reads on would do so for ever.
            raise ValueError(f"max_records {max_records} or max_bytes {max_bytes} is not positive")
        if not self._is_whole:
            self._look_again()
        for _ in range(_LOOKS_MAX):
            if self._reads is None:
                break
            try:
                return self._reads.read(offset, self.log_end_offset, max_bytes, max_records)
            except LogFailedError as error:
                if not isinstance(error.cause, FileNotFoundError):
                    raise
            # Retention or compaction has removed the file.
            self._look_again()
        return ReadResult(next_offset=max(offset, self.log_start_offset))

    @property
    def damaged(self) -> list[str]:
        """A line for each damaged place that reads have met."""
        return [] if self._reads is None else self._reads.damaged

    def _look_again(self) -> None:
        self._is_whole = False
        self._known = {segment.name: segment for segment in self._segments}
        # A log with no segment left has lost its directory: what was known of it stays true.
        if names := self._list():
            self._load(names)
        self._settle()

    def _load(self, names: list[SegmentName]) -> None:
        for _ in range(_LOOKS_MAX):
            try:
                super()._load(names)
                self._segments = list(self._segments)  # it reads on: all are looked at once
            except FileNotFoundError:
                # Removed between the listing and the look: the listing is old.
                names = self._list()
            except IsADirectoryError:
                if self._has_strangers:
                    raise
                self._has_strangers = True
                names = self._list()
            else:
                if not self._has_doubts:
                    return
                self._has_doubts, self._has_strangers = False, True
                names = self._list()
        raise LogError(f"{self.directory}: segments are removed faster than they can be opened")

    def _settle(self) -> None:
        self._known = {}
        self._listed.take(self._segments)
        if self._reads is None and self.identity is not None:
            reads = LogReads(self._listed)
            reads.indexes = self._places
            reads.reader = self._segment_reader()
            self._reads = reads
        self._is_whole = True

    def _look_at(self, name: SegmentName, *, is_last: bool) -> Segment:
        known = self._known.get(name)
        if known is not None and known.is_sealed:
            return known
        if known is not None and is_last:
            # The same object, so that a reader's place in it stays known.
            known.size_bytes = known.data_bytes = self._filesystem.file_size(known.path)
            return known
        return super()._look_at(name, is_last=is_last)

    def _on_damage(self, path: Path, position: int, offset: int, reason: str) -> None:
        super()._on_damage(path, position, offset, reason)
        if self._reads is not None:
            self._reads.note_damage(path, position, offset, reason)
