"""Following a log from any process: reads continue when its writer makes more durable."""

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
"""Maximum number of listings for one read, if retention removes the segments each time."""


class LogFollower(LogReader):
    """A `LogReader` that can refresh its view. Not thread-safe.

    Args:
        directory: Directory of the log.
        filesystem: File operations; those of the operating system by default.
        skip_damage: True continues after damage; False raises CorruptRecordError.

    Raises:
        UnsupportedFormatError: As for `LogReader`, like its other errors.
    """

    _treats_lost_ends_as_damage = False  # a follower waits: the segments may come back

    def __init__(
        self, directory: Path, filesystem: FileSystem | None = None, skip_damage: bool = True
    ) -> None:
        self._known: dict[SegmentName, Segment] = {}
        self._listed = SegmentList()
        self._reads: LogReads | None = None
        # An exception of a signal handler may interrupt a refresh. Then the end of a later refresh
        # may be combined with the segments of an earlier one: a read would skip what is between.
        self._is_whole = False
        super().__init__(directory, filesystem, skip_damage)
        self._settle()

    def refresh(self, *, is_thorough: bool = False) -> bool:
        """Look at the log again; return whether it may hold more, or less, than before.

        Costs one small read if nothing became durable. Otherwise it lists the directory and reads a
        footer for each newly sealed segment.

        Args:
            is_thorough: Whether to list the directory in any case, which is needed to see
                retention.

        Raises:
            UnsupportedFormatError: As for `LogReader`, like its other errors.
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

        The next batch begins without a search where this one ends. The view is refreshed only if a
        file to read has been removed.

        Args:
            offset: First offset; below the log's start means its start.
            max_records: Limit of records, >= 1.
            max_bytes: Limit of message bytes, >= 1; at least one record is returned if there is
                one.

        Returns:
            The records, and the offset at which to continue. At the durable end, and if the log was
            deleted: no records, and `offset` unchanged.

        Raises:
            ValueError: `max_records` or `max_bytes` is below 1.
            LogFailedError: A file cannot be read.
            CorruptRecordError: The log is damaged, and `skip_damage` is off.
        """
        if max_records < 1 or max_bytes < 1:
            # Such a read never returns a record: a loop over it would not end.
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
        """A line for each damaged place that reads have found."""
        return [] if self._reads is None else self._reads.damaged

    def _look_again(self) -> None:
        self._is_whole = False
        self._known = {segment.name: segment for segment in self._segments}
        # A log without segments has lost its directory: keep what was known of it.
        if names := self._list():
            self._load(names)
        self._settle()

    def _load(self, names: list[SegmentName]) -> None:
        for _ in range(_LOOKS_MAX):
            try:
                super()._load(names)
                self._segments = list(self._segments)  # not one by one later
            except FileNotFoundError:
                # Removed after the listing: list the directory again.
                names = self._list()
            except IsADirectoryError:
                if self._checks_headers:
                    raise
                self._checks_headers = True
                names = self._list()
            else:
                if not self._has_misfits:
                    return
                self._has_misfits = False
                self._checks_headers = True
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
            self._reads.damaged_places.note(path, position, offset, reason)
