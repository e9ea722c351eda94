"""What can be set about a log."""

from dataclasses import dataclass, field
from enum import StrEnum

from appendlog.files.descriptors import SHARED_DESCRIPTORS, Descriptors
from appendlog.files.durable_directories import DurableDirectories
from appendlog.files.mappings import SHARED_MAPPINGS, Mappings
from appendlog.segments.mapped_indexes import SHARED_INDEXES, MappedIndexes

SEGMENT_BYTES_MAX = 2 << 30
INDEX_INTERVAL_BYTES = 4096


class Compression(StrEnum):
    """How the records of a chunk are packed."""

    NONE = "none"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of one log.

    Attributes:
        segment_bytes: A segment is sealed before a chunk that would make it longer; a
            chunk that is longer by itself gets a segment of its own. 1 to 2 GiB.
        segment_age_seconds: A segment is sealed before a chunk that is this much younger than
            its first record; 0 = never for its age.
        index_interval_bytes: Least distance between two index entries.
        compression: Whether chunks are packed with zstd before they are written.
        compression_bytes_min: Chunks with fewer bytes of records are never packed.
        descriptors: Where open files are kept; by default one bounded set per process.
        mappings: Where mapped segments are kept; by default one bounded set per process.
        indexes: Where mapped indexes are kept; by default one bounded set per process.
        directories: Makes the log's directory and its parents; to be shared by logs that share
            parents. By default what is there when the log is opened counts as safe.
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

    def __post_init__(self) -> None:
        if not 1 <= self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(f"segment_bytes {self.segment_bytes} is not in [1, 2 GiB]")
        if self.segment_age_seconds < 0:
            raise ValueError(f"segment_age_seconds {self.segment_age_seconds} is negative")
        if self.index_interval_bytes < 1:
            raise ValueError(f"index_interval_bytes {self.index_interval_bytes} is not positive")
        if self.compression_bytes_min < 0:
            raise ValueError(f"compression_bytes_min {self.compression_bytes_min} is negative")
