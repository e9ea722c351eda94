"""What can be set about an embedded log, and the presets with their reasons.

Durability is `sync_each_append`, `sync_interval_seconds` and `sync_bytes`: what was appended
since the last sync may be lost with the machine, and what is still in the batch with the process.
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
        sync_each_append: Whether an append returns when its records are on the disk.
        sync_interval_seconds: At most this long after an append its records are on the disk; a
            thread sees to it. 0 = no such bound.
        sync_bytes: The append that makes this many bytes since the last sync does one; 0 = no
            such bound.
        batch_bytes: Messages are kept in memory until they have this many bytes, and then go to
            the kernel with one write; 0 = each append goes at once. At most 64 MiB.
        chunk_bytes: Messages that share a CRC, and are compressed together.
        segment_bytes: As in `LogOptions`.
        segment_age_seconds: As in `LogOptions`.
        compression: As in `LogOptions`.
        compression_bytes_min: As in `LogOptions`.
        retain_seconds: `RetentionPolicy.retain_for_ns`, in seconds; 0 = no such bound.
        retain_bytes: `RetentionPolicy.retain_bytes`, for each log; 0 = no such bound.
        retain_total_bytes: The same for all logs of a root together; 0 = no such bound.
        segments_min: As in `RetentionPolicy`.
        protects_unconsumed: As in `RetentionPolicy`; settled is what every group is past.
        force_after_seconds: `RetentionPolicy.force_after_ns`, in seconds; 0 = never.
        group_expires_after_seconds: Nothing is kept for a group that had no consumer for so long;
            0 = it counts until it is removed.
        retention_interval_seconds: How often a thread looks for what can go; 0 = only when it is
            asked for.
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
        # Refuses what is wrong with the others.
        self.log_options()

    @property
    def removes(self) -> bool:
        """Whether retention ever removes anything."""
        return bool(self.retain_total_bytes or self.retain_seconds or self.retain_bytes) or bool(
            self.force_after_seconds
        )

    def log_options(self) -> LogOptions:
        """Return what the log itself is to know."""
        return LogOptions(
            segment_bytes=self.segment_bytes,
            segment_age_seconds=self.segment_age_seconds,
            compression=self.compression,
            compression_bytes_min=self.compression_bytes_min,
        )

    def retention(self) -> RetentionPolicy:
        """Return what one log keeps."""
        return RetentionPolicy(
            retain_for_ns=int(self.retain_seconds * _SECOND_NS),
            retain_bytes=self.retain_bytes,
            segments_min=self.segments_min,
            protects_unconsumed=self.protects_unconsumed,
            force_after_ns=int(self.force_after_seconds * _SECOND_NS),
        )


THROUGHPUT: Final = EmbeddedOptions(
    # One write for some 900 small records. More is slower: the memory of a larger batch is new to
    # the processor each time (measured: 1 MiB takes half as long again).
    batch_bytes=128 << 10,
    # A sync costs the same for one record and for a million: seldom, and by the clock.
    sync_interval_seconds=1.0,
    # Before the kernel writes back by itself and stalls the writer for it.
    sync_bytes=64 << 20,
    # Few files, few rolls: each roll is four syncs.
    segment_bytes=256 << 20,
    # zstd at its lowest level still halves the rate of appends.
    compression=Compression.NONE,
    retain_seconds=7 * 24 * 3600.0,
)
"""As many records a second as it can be: a crash of the machine may lose the last second."""

STORAGE: Final = EmbeddedOptions(
    # Compression works within a chunk: the more records it has, the more they repeat.
    batch_bytes=1 << 20,
    chunk_bytes=1 << 20,
    compression=Compression.ZSTD,
    # Below this a frame's own header eats what it saves.
    compression_bytes_min=512,
    sync_interval_seconds=1.0,
    # Retention takes whole segments: small ones let go of old records sooner.
    segment_bytes=16 << 20,
    segment_age_seconds=3600.0,
    retain_seconds=7 * 24 * 3600.0,
    retain_total_bytes=10 << 30,
)
"""As little room as it can be: compressed, and bounded in time and in bytes."""

EDGE: Final = EmbeddedOptions(
    # Little memory, and little lost when the power goes, which it does.
    batch_bytes=64 << 10,
    chunk_bytes=64 << 10,
    sync_interval_seconds=0.2,
    # Flash likes few large syncs; this is what one second of a busy device makes.
    sync_bytes=4 << 20,
    segment_bytes=4 << 20,
    segment_age_seconds=600.0,
    compression=Compression.ZSTD,
    compression_bytes_min=512,
    # A device that is out of reach for weeks must not fill its disk: then the oldest goes, though
    # nobody has fetched it.
    retain_bytes=64 << 20,
    retain_total_bytes=256 << 20,
    protects_unconsumed=False,
)
"""A small device: bounded memory and disk, at most 0.2 s lost with the power."""

DURABLE: Final = EmbeddedOptions(
    # Whoever calls `append` has the record on the disk when it returns.
    sync_each_append=True,
    sync_interval_seconds=0.0,
    batch_bytes=0,
)
"""Nothing that an append has returned is ever lost; each costs a sync of the disk."""
