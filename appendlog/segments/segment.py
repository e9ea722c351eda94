"""One segment as the log keeps it in memory: names, sizes and sums, no open file."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from appendlog.layout.summary import SegmentSummary
from appendlog.segments.index import ActiveIndex

COMPACTING_SUFFIX: Final = ".compacting"
"""Of a segment that is being rewritten; without its name until it is wholly on the disk."""

_LOG_NAME = re.compile(r"(\d{20})(?:-(\d{10}))?\.log\Z")


class SegmentName(NamedTuple):
    """What the name of a segment file says."""

    base_offset: int
    generation: int

    @property
    def file_name(self) -> str:
        """Return the name of the segment file."""
        return f"{self.stem}.log"

    @property
    def index_name(self) -> str:
        """Return the name of the index file beside it."""
        return f"{self.stem}.index"

    @property
    def stem(self) -> str:
        """Return the names without what tells the kind of file."""
        compacted = f"-{self.generation:010d}" if self.generation else ""
        return f"{self.base_offset:020d}{compacted}"


def segment_names(file_names: Iterable[str]) -> list[SegmentName]:
    """Return the segments among the names of a directory, oldest generation first."""
    found = (_LOG_NAME.match(name) for name in file_names)
    return sorted(SegmentName(int(m[1]), int(m[2] or 0)) for m in found if m)


class Segment:
    """One segment file of a log.

    Attributes:
        name: Base offset and generation.
        path: The file.
        index_path: Its index.
        header_bytes: Where the first chunk stands.
        data_bytes: Where the chunks end; a footer is not counted. Only grows.
        size_bytes: Size of the file.
        summary: Sums of its chunks.
        is_sealed: Nothing more is appended.
        is_whole: Nothing in it is known to be damaged or lost.
        index: Of the active segment; None once it is sealed and stored.
        begun_ns: When the file was made, if that is known, else when it was opened; nanoseconds
            since 1970 UTC, by a clock that may have been wrong then.
    """

    __slots__ = (
        "begun_ns",
        "data_bytes",
        "header_bytes",
        "index",
        "index_path",
        "is_sealed",
        "is_whole",
        "name",
        "path",
        "size_bytes",
        "summary",
    )

    def __init__(
        self, directory: Path, name: SegmentName, header_bytes: int, summary: SegmentSummary
    ) -> None:
        self.name = name
        self.path = directory / name.file_name
        self.index_path = directory / name.index_name
        self.header_bytes = header_bytes
        self.data_bytes = header_bytes
        self.size_bytes = header_bytes
        self.summary = summary
        self.is_sealed = False
        self.is_whole = True
        self.index: ActiveIndex | None = None
        self.begun_ns = time.time_ns()

    @property
    def base_offset(self) -> int:
        """Return the lowest offset that the segment may hold."""
        return self.name.base_offset

    @property
    def end_offset(self) -> int:
        """Return the offset behind the segment's last one."""
        return self.summary.end_offset

    def begun_by(self, now_ns: int) -> int:
        """Return a time by which the segment was there, and remember it.

        Never ahead of `now_ns`: where `begun_ns` is, by a clock that was wrong, it is replaced by
        the time at which that was found.
        """
        self.begun_ns = min(self.begun_ns, now_ns)
        return self.begun_ns
