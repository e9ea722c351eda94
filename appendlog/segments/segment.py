"""A segment as the log keeps it in memory: names, sizes and sums, without an open file."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from appendlog.layout.summary import SegmentSummary
from appendlog.segments.index import ActiveIndex

COMPACTING_SUFFIX: Final = ".compacting"
"""Suffix of a segment that is being rewritten; it gets its name once it is wholly on the disk."""

_LOG_NAME = re.compile(r"(\d{20})(?:-(\d{10}))?\.log\Z")


class SegmentName(NamedTuple):
    """Base offset and generation, as the name of a segment file states them."""

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
        """Return the common part of the names, without the suffix."""
        compacted = f"-{self.generation:010d}" if self.generation else ""
        return f"{self.base_offset:020d}{compacted}"


def segment_names(file_names: Iterable[str]) -> list[SegmentName]:
    """Return the segments among the file names of a directory, oldest generation first."""
    found = (_LOG_NAME.match(name) for name in file_names)
    return sorted(SegmentName(int(m[1]), int(m[2] or 0)) for m in found if m)


class Segment:
    """Segment file of a log.

    Attributes:
        name: Base offset and generation.
        path: Path of the segment file.
        header_bytes: Position of the first chunk.
        data_bytes: Position where the chunks end, before the footer. Only grows.
        size_bytes: Size of the file.
        summary: Sums of its chunks.
        is_sealed: Whether the segment is closed to appends.
        is_whole: Whether nothing in it is known to be damaged or lost.
        index: Index of the active segment; None once it is sealed and stored.
        begun_ns: When the file was made, if that is known, otherwise when it was opened; ns since
            1970 UTC, by a clock that may have been wrong then.
    """

    __slots__ = (
        "begun_ns",
        "data_bytes",
        "header_bytes",
        "index",
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
        self.header_bytes = header_bytes
        self.data_bytes = header_bytes
        self.size_bytes = header_bytes
        self.summary = summary
        self.is_sealed = False
        self.is_whole = True
        self.index: ActiveIndex | None = None
        self.begun_ns = time.time_ns()

    @property
    def index_path(self) -> Path:
        """Return the path of its index file."""
        return self.path.with_name(self.name.index_name)

    @property
    def base_offset(self) -> int:
        """Return the lowest offset that the segment may hold."""
        return self.name.base_offset

    @property
    def end_offset(self) -> int:
        """Return the offset after the last one of the segment."""
        return self.summary.end_offset

    def begun_by(self, now_ns: int) -> int:
        """Return a time at which the segment existed already, and remember it.

        Never later than `now_ns`: if a wrong clock set `begun_ns` to a later time, `now_ns`
        replaces it.
        """
        self.begun_ns = min(self.begun_ns, now_ns)
        return self.begun_ns
