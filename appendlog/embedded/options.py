"""Options of an embedded log, and presets with their reasons.

`sync_each_append`, `sync_interval_seconds` and `sync_bytes` set the durability. A crash of the
machine may lose the records since the last sync; a crash of the process, those in the batch.
"""

from dataclasses import dataclass
from typing import Final

from appendlog.options import Compression, LogOptions
from appendlog.reclaim.retention import RetentionPolicy

BATCH_BYTES_MAX: Final = 64 << 20
_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class EmbeddedOptions:
    """Options of an embedded log and of its retention.

    Attributes:
        sync_each_append: Whether an append returns only once its records are on the disk.
        sync_interval_seconds: Maximum time until appended records are on the disk, ensured by a
            thread; 0 = no such bound.
        sync_bytes: Number of appended bytes after which an append syncs; 0 = no such bound.
        batch_bytes: Size of messages in memory at which they are written to the kernel; 0 = each
            append writes at once. At most 64 MiB.
        chunk_bytes: Size of the messages that share a CRC and are compressed together.
        segment_bytes: As in `LogOptions`.
        segment_age_seconds: As in `LogOptions`.
        compression: As in `LogOptions`.
        compression_bytes_min: As in `LogOptions`.
        retain_seconds: `RetentionPolicy.retain_for_ns`, in seconds; 0 = no such bound.
        retain_bytes: `RetentionPolicy.retain_bytes`, for each log; 0 = no such bound.
        retain_total_bytes: The same for all logs of a root together; 0 = no such bound.
        segments_min: As in `RetentionPolicy`.
        protects_unconsumed: As in `RetentionPolicy`; settled means that every group has passed it.
        force_after_seconds: `RetentionPolicy.force_after_ns`, in seconds; 0 = never.
        group_expires_after_seconds: Time without a consumer after which retention ignores a group;
            0 = a group counts until it is removed.
        retention_interval_seconds: Interval of retention, which a thread runs; 0 = only when the
            program calls it.
    """

    sync_each_append: bool = False
    sync_interval_seconds: float = 1.0
    sync_bytes: int = 0
    batch_bytes: int = 128 << 10
    chunk_bytes: int = 256 << 10
    segment_bytes: int = 64 << 20
    segment_age_seconds: float = 0.0
    compression: Compression = Compression.NONE
    compression_bytes_min: int = 1024
    retain_seconds: float = 0.0
    retain_bytes: int = 0
    retain_total_bytes: int = 0
    segments_min: int = 1
    protects_unconsumed: bool = True
    force_after_seconds: float = 0.0
    group_expires_after_seconds: float = 0.0
    retention_interval_seconds: float = 60.0

    def __post_init__(self) -> None:
        for name in (
            "sync_interval_seconds",
            "sync_bytes",
            "retain_seconds",
            "retain_bytes",
            "retain_total_bytes",
            "force_after_seconds",
            "group_expires_after_seconds",
            "retention_interval_seconds",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} {getattr(self, name)} is negative")
        if not 0 <= self.batch_bytes <= BATCH_BYTES_MAX:
            raise ValueError(f"batch_bytes {self.batch_bytes} is not in [0, {BATCH_BYTES_MAX}]")
        if not 1 <= self.chunk_bytes <= BATCH_BYTES_MAX:
            raise ValueError(f"chunk_bytes {self.chunk_bytes} is not in [1, {BATCH_BYTES_MAX}]")
        if self.segments_min < 1:
            raise ValueError(f"segments_min {self.segments_min} is not positive")
        # Validates the remaining options.
        self.log_options()

    @property
    def removes(self) -> bool:
        """Whether retention ever removes anything."""
        return bool(self.retain_total_bytes or self.retain_seconds or self.retain_bytes) or bool(
            self.force_after_seconds
        )

    def log_options(self) -> LogOptions:
        """Return the options of the log itself."""
        return LogOptions(
            segment_bytes=self.segment_bytes,
            segment_age_seconds=self.segment_age_seconds,
            compression=self.compression,
            compression_bytes_min=self.compression_bytes_min,
        )

    def retention(self) -> RetentionPolicy:
        """Return the retention policy of one log."""
        return RetentionPolicy(
            retain_for_ns=int(self.retain_seconds * _SECOND_NS),
            retain_bytes=self.retain_bytes,
            segments_min=self.segments_min,
            protects_unconsumed=self.protects_unconsumed,
            force_after_ns=int(self.force_after_seconds * _SECOND_NS),
        )


THROUGHPUT: Final = EmbeddedOptions(
    # One write for some 900 small records. Larger batches are slower, because their memory is not
    # in the processor's cache (measured: 1 MiB takes half as long again).
    batch_bytes=128 << 10,
    # A sync costs the same for one record and for a million, so sync rarely, at an interval.
    sync_interval_seconds=1.0,
    # Sync before the kernel starts its own writeback, which stalls the writer.
    sync_bytes=64 << 20,
    # Few files, few rolls: each roll is four syncs.
    segment_bytes=256 << 20,
    # zstd at its lowest level still halves the rate of appends.
    compression=Compression.NONE,
    retain_seconds=7 * 24 * 3600.0,
)
"""Highest rate of records; a crash of the machine may lose the last second."""

STORAGE: Final = EmbeddedOptions(
    # Compression works within a chunk: larger chunks repeat themselves more.
    batch_bytes=1 << 20,
    chunk_bytes=1 << 20,
    compression=Compression.ZSTD,
    # Below this size the header of a zstd frame costs more than compression saves.
    compression_bytes_min=512,
    sync_interval_seconds=1.0,
    # Retention removes whole segments: small ones free the space of old records sooner.
    segment_bytes=16 << 20,
    segment_age_seconds=3600.0,
    retain_seconds=7 * 24 * 3600.0,
    retain_total_bytes=10 << 30,
)
"""Smallest size on disk: compressed, with bounds for age and size."""

EDGE: Final = EmbeddedOptions(
    # Little memory, and little data lost in a power cut, which must be expected.
    batch_bytes=64 << 10,
    chunk_bytes=64 << 10,
    sync_interval_seconds=0.2,
    # Flash prefers few large syncs; a busy device writes this much in a second.
    sync_bytes=4 << 20,
    segment_bytes=4 << 20,
    segment_age_seconds=600.0,
    compression=Compression.ZSTD,
    compression_bytes_min=512,
    # A device that is offline for weeks must not fill its disk: retention then removes the oldest
    # records, even if no consumer has read them.
    retain_bytes=64 << 20,
    retain_total_bytes=256 << 20,
    protects_unconsumed=False,
)
"""Small device: bounded memory and disk; a power cut loses at most 0.2 s."""

DURABLE: Final = EmbeddedOptions(
    # A record is on the disk when `append` returns.
    sync_each_append=True,
    sync_interval_seconds=0.0,
    batch_bytes=0,
)
"""No appended record is ever lost; each append costs a sync of the disk."""
