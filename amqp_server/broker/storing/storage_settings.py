"""How one queue is kept on the disk: its arguments, and the server's word where it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from amqp_server.config import Durability
from amqp_server.limits import KIB
from appendlog import Compression, LogOptions

if TYPE_CHECKING:
    from amqp_server.config import ServerConfig
    from amqp_server.protocol.tables import Table
    from appendlog import DurableDirectories

RETAIN_FOR: Final = "x-retain-for"
"""Milliseconds that settled messages are kept for replay and export."""
SEGMENT_MAX_BYTES: Final = "x-segment-max-bytes"
"""Size at which a segment of the log is sealed."""
SEGMENT_MAX_AGE: Final = "x-segment-max-age"
"""Milliseconds after its first record that a segment of the log is sealed; 0 = never."""
SEGMENT_BYTES_MIN: Final = 64 * KIB
"""Smaller segments would be more files than messages are worth."""

DURABILITY: Final = "x-durability"
"""What a confirm of the queue's messages means: `fsync`, `write` or `none`."""

COMPRESSION: Final = "x-compression"
"""How the queue's log packs what it writes: `none` or `zstd`."""


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """What holds for one queue.

    Attributes:
        durability: What must have happened to a persistent message before it is confirmed.
        retain_for_seconds: How long settled messages are kept; 0 removes a segment as soon as
            all of it is settled.
        compression: How its log packs what it writes.
        compression_bytes_min: Bytes of messages written at a time below which nothing is packed.
        segment_bytes: Size at which a segment is sealed.
        segment_age_seconds: Age at which one is sealed; 0 = never.
    """

    durability: Durability
    retain_for_seconds: float
    compression: Compression
    compression_bytes_min: int
    segment_bytes: int
    segment_age_seconds: float

    def log_options(self, directories: DurableDirectories | None = None) -> LogOptions:
        """Return what the queue's log is opened with.

        Args:
            directories: Shared by all logs of the server.
        """
        return LogOptions(
            segment_bytes=self.segment_bytes,
            segment_age_seconds=self.segment_age_seconds,
            compression=self.compression,
            compression_bytes_min=self.compression_bytes_min,
            directories=directories,
        )


def storage_settings(arguments: Table, config: ServerConfig) -> StorageSettings:
    """Return what the checked arguments of a queue ask for, or else the server's settings."""
    retain_for_ms = _integer(arguments, RETAIN_FOR)
    durability = _text(arguments, DURABILITY)
    compression = _text(arguments, COMPRESSION)
    segment_bytes = _integer(arguments, SEGMENT_MAX_BYTES)
    segment_age_ms = _integer(arguments, SEGMENT_MAX_AGE)
    return StorageSettings(
        durability=config.durability if durability is None else Durability(durability),
        retain_for_seconds=(
            config.retain_for_seconds if retain_for_ms is None else retain_for_ms / 1000
        ),
        compression=config.compression if compression is None else Compression(compression),
        compression_bytes_min=config.compression_bytes_min,
        segment_bytes=config.segment_bytes if segment_bytes is None else segment_bytes,
        segment_age_seconds=(
            config.segment_age_seconds if segment_age_ms is None else segment_age_ms / 1000
        ),
    )


def _text(arguments: Table, name: str) -> str | None:
    value = arguments.get(name)
    return value.value.decode() if value is not None and isinstance(value.value, bytes) else None


def _integer(arguments: Table, name: str) -> int | None:
    value = arguments.get(name)
    return value.value if value is not None and isinstance(value.value, int) else None
