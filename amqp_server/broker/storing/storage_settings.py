"""Settings of one queue on the disk: from its arguments, or else from the server's settings.

`StorageSettings` are those of the log; `StoreSettings` are those of the writes to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from amqp_server.base.config import Durability
from amqp_server.base.limits import KIB
from amqp_server.broker.age_text import age_ns
from appendlog import SEGMENT_BYTES_MAX, Compression, LogOptions, RetentionPolicy
from appendlog.reclaim.stream_retention import StreamBounds

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.config import ServerConfig
    from amqp_server.protocol.tables import Table
    from appendlog import DurableDirectories

RETAIN_FOR: Final = "x-retain-for"
"""Longest that settled messages are kept for replay and export, in milliseconds; 0 = no limit."""
RETAIN_BYTES: Final = "x-retain-bytes"
"""Most octets of settled messages that are kept; 0 = no limit."""
RETAIN_SEGMENTS_MIN: Final = "x-retain-segments-min"
"""Segments of the log that are always kept, including the one that is being written."""
PROTECT_UNCONSUMED: Final = "x-protect-unconsumed"
"""Whether retention removes settled messages only."""
FORCE_REMOVE_AFTER: Final = "x-force-remove-after"
"""Age in milliseconds at which even unsettled messages are removed; 0 = never."""
RETENTION_ARGUMENTS: Final = frozenset(
    (RETAIN_FOR, RETAIN_BYTES, RETAIN_SEGMENTS_MIN, PROTECT_UNCONSUMED, FORCE_REMOVE_AFTER)
)
"""Arguments that say what retention removes of a queue that is no stream."""
SEGMENT_MAX_BYTES: Final = "x-segment-max-bytes"
"""Size at which a segment of the log is sealed."""
SEGMENT_MAX_AGE: Final = "x-segment-max-age"
"""Age of its first record, in milliseconds, at which a segment is sealed; 0 = never."""
SEGMENT_BYTES_MIN: Final = 64 * KIB
"""Smallest segment size, so that a log does not consist of too many files."""

STREAM_MAX_AGE: Final = "x-max-age"
"""Age up to which a stream keeps messages, as a text such as `7D`."""
STREAM_MAX_BYTES: Final = "x-max-length-bytes"
"""Most octets of a stream's segments; for other queues a limit of the ready messages."""
STREAM_SEGMENT_BYTES: Final = "x-stream-max-segment-size-bytes"
"""RabbitMQ's name of `x-segment-max-bytes`; values outside our bounds are clamped to them."""

DURABILITY: Final = "x-durability"
"""Guarantee of a confirm of the queue's messages: `fsync`, `write` or `none`."""

COMPRESSION: Final = "x-compression"
"""Compression of the chunks in the queue's log: `none` or `zstd`."""


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Settings of one queue's log.

    Attributes:
        durability: What must have happened to a persistent message before its confirm.
        retention: Which settled messages are kept, and which unsettled ones are removed.
        compression: How the log compresses its chunks.
        compression_bytes_min: Smallest chunk that is compressed, in message bytes.
        segment_bytes: Size at which a segment is sealed.
        segment_age_seconds: Age at which a segment is sealed; 0 = never.
        stream: Bounds of a stream's messages; nothing else settles messages of a stream.
    """

    durability: Durability
    retention: RetentionPolicy
    compression: Compression
    compression_bytes_min: int
    segment_bytes: int
    segment_age_seconds: float
    stream: StreamBounds = field(default_factory=StreamBounds)

    def log_options(
        self, directories: DurableDirectories | None, time_ns: Callable[[], int]
    ) -> LogOptions:
        """Return the options for opening the queue's log.

        Args:
            directories: Creator of directories that all logs of the server share.
            time_ns: Returns the time of day, in nanoseconds since 1970 UTC.
        """
        return LogOptions(
            segment_bytes=self.segment_bytes,
            segment_age_seconds=self.segment_age_seconds,
            compression=self.compression,
            compression_bytes_min=self.compression_bytes_min,
            directories=directories,
            time_ns=time_ns,
        )


def storage_settings(arguments: Table, config: ServerConfig) -> StorageSettings:
    """Return the settings from a queue's checked arguments, with the server's as defaults."""
    durability = _text(arguments, DURABILITY)
    compression = _text(arguments, COMPRESSION)
    is_stream = _text(arguments, "x-queue-type") == "stream"
    segment_bytes = _segment_bytes(arguments)
    segment_age_ms = _integer(arguments, SEGMENT_MAX_AGE)
    return StorageSettings(
        durability=config.durability if durability is None else Durability(durability),
        # Messages that leave a stream's bounds are removed at once.
        retention=RetentionPolicy() if is_stream else _retention(arguments, config),
        compression=config.compression if compression is None else Compression(compression),
        compression_bytes_min=config.compression_bytes_min,
        segment_bytes=config.segment_bytes if segment_bytes is None else segment_bytes,
        segment_age_seconds=(
            config.segment_age_seconds if segment_age_ms is None else segment_age_ms / 1000
        ),
        stream=_stream_bounds(arguments) if is_stream else StreamBounds(),
    )


def _segment_bytes(arguments: Table) -> int | None:
    asked = _integer(arguments, STREAM_SEGMENT_BYTES)
    if asked is None:
        return _integer(arguments, SEGMENT_MAX_BYTES)
    return min(max(asked, SEGMENT_BYTES_MIN), SEGMENT_BYTES_MAX)


def _stream_bounds(arguments: Table) -> StreamBounds:
    age = arguments.get(STREAM_MAX_AGE)
    age_text = age.value if age is not None and isinstance(age.value, bytes) else b""
    return StreamBounds(age_ns(age_text), _integer(arguments, STREAM_MAX_BYTES))


def _retention(arguments: Table, config: ServerConfig) -> RetentionPolicy:
    retain_bytes = _integer(arguments, RETAIN_BYTES)
    segments_min = _integer(arguments, RETAIN_SEGMENTS_MIN)
    protects = arguments.get(PROTECT_UNCONSUMED)
    return RetentionPolicy(
        retain_for_ns=_duration_ns(arguments, RETAIN_FOR, config.retain_for_seconds),
        retain_bytes=config.retain_bytes if retain_bytes is None else retain_bytes,
        segments_min=config.retain_segments_min if segments_min is None else segments_min,
        protects_unconsumed=(
            config.protect_unconsumed if protects is None else protects.value is True
        ),
        force_after_ns=_duration_ns(
            arguments, FORCE_REMOVE_AFTER, config.force_remove_after_seconds
        ),
    )


def _duration_ns(arguments: Table, name: str, default_seconds: float) -> int:
    milliseconds = _integer(arguments, name)
    return int(default_seconds * 1e9) if milliseconds is None else milliseconds * 1_000_000


def _text(arguments: Table, name: str) -> str | None:
    value = arguments.get(name)
    return value.value.decode() if value is not None and isinstance(value.value, bytes) else None


def _integer(arguments: Table, name: str) -> int | None:
    value = arguments.get(name)
    return value.value if value is not None and isinstance(value.value, int) else None


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Bounds and guarantees of a store's writes.

    Attributes:
        durability: What must have happened to a persistent message before it counts as safe.
        flush_bytes: Most message bytes in a chunk; a larger message has a chunk of its own.
        flush_interval_seconds: Longest that a small chunk waits while input goes on.
    """

    durability: Durability
    flush_bytes: int
    flush_interval_seconds: float
