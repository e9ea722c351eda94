"""Options of a log."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from appendlog.files.descriptors import SHARED_DESCRIPTORS, Descriptors
from appendlog.files.durable_directories import DurableDirectories
from appendlog.files.mappings import SHARED_MAPPINGS, Mappings
from appendlog.segments.append_clock import system_time_ns
from appendlog.segments.mapped_indexes import SHARED_INDEXES, MappedIndexes

SEGMENT_BYTES_MAX = 2 << 30
INDEX_INTERVAL_BYTES = 4096


class Compression(StrEnum):
    """Compression of the records in a chunk."""

    NONE = "none"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of one log.

    Attributes:
        segment_bytes: Maximum size of a segment, 1 byte to 2 GiB. A segment is sealed before a
            chunk that would exceed it; a chunk that is longer gets its own segment.
        segment_age_seconds: Maximum difference in age between a segment's first record and the next
            chunk; the segment is sealed before a younger chunk. 0 = no limit.
        index_interval_bytes: Minimum distance between two index entries, >= 1.
        compression: Compression of chunks before they are written.
        compression_bytes_min: Chunks with fewer bytes of records are never compressed.
        descriptors: Cache of open files; by default one bounded cache per process.
        mappings: Cache of mapped segments; by default one bounded cache per process.
        indexes: Cache of mapped indexes; by default one bounded cache per process.
        directories: Makes the log's directory and its parents; shared by logs with common parents.
            By default, directories that exist at the open count as durable.
        time_ns: Returns the time of day, in ns since 1970 UTC, from any thread: the append times of
            records and the ages of segments go by it.
    """

    segment_bytes: int = 64 << 20
    segment_age_seconds: float = 0.0
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    compression: Compression = Compression.NONE
    compression_bytes_min: int = 1024
    descriptors: Descriptors = field(default=SHARED_DESCRIPTORS, repr=False)
    mappings: Mappings = field(default=SHARED_MAPPINGS, repr=False)
    indexes: MappedIndexes = field(default=SHARED_INDEXES, repr=False)
    directories: DurableDirectories | None = field(default=None, repr=False)
    time_ns: Callable[[], int] = field(default=system_time_ns, repr=False)

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(f"segment_bytes {self.segment_bytes} is not in [1, 2 GiB]")
        if self.segment_age_seconds < 0:
            raise ValueError(f"segment_age_seconds {self.segment_age_seconds} is negative")
        if self.index_interval_bytes < 1:
            raise ValueError(f"index_interval_bytes {self.index_interval_bytes} is not positive")
        if self.compression_bytes_min < 0:
            raise ValueError(f"compression_bytes_min {self.compression_bytes_min} is negative")
