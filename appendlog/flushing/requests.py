"""What a flusher is asked to do with a log, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass

from appendlog.errors import LogFailedError
from appendlog.log import Log
from appendlog.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class FlushRequest:
    """Append chunks to a log; see `Log.append`.

    Attributes:
        log: Where to.
        chunks: Encoded; may be empty.
        end_offset: Log end offset afterwards.
        sync: Put them on the disk.
        roll: Then seal the segment; see `Log.roll`.
        settled_floor: Offsets below it need not stay in the page cache.
    """

    log: Log
    chunks: list[bytes]
    end_offset: int
    sync: bool
    roll: bool = False
    settled_floor: int = 0


@dataclass(frozen=True, slots=True)
class RemoveSettledRequest:
    """Remove settled segments; see `Log.remove_settled`.

    Attributes:
        log: Whose segments.
        floor: Offsets below it are settled, on the disk.
    """

    log: Log
    floor: int


@dataclass(frozen=True, slots=True)
class ReopenRequest:
    """Take a failed log into use again; see `Log.reopen`."""

    log: Log


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """Rewrite a segment; see `LogReclaim.compact`. What cannot be done frees nothing.

    Attributes:
        log: Whose segment.
        segment: Sealed, and not the last one.
        live: What of it is not settled on the disk.
        live_bytes_max: More than this is not worth it.
    """

    log: Log
    segment: Segment
    live: Sequence[tuple[int, int]]
    live_bytes_max: int


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """Put a log on the disk and close it; see `Log.close`."""

    log: Log


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Remove a log with its directory; see `Log.delete`."""

    log: Log


MaintenanceRequest = (
    RemoveSettledRequest | CompactRequest | CloseRequest | DeleteRequest | ReopenRequest
)
Request = FlushRequest | MaintenanceRequest


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What became of one request.

    Attributes:
        request: The one submitted.
        error: Why it failed; the log stays failed. None when it was done.
        freed_bytes: Of RemoveSettledRequest and CompactRequest.
    """

    request: Request
    error: LogFailedError | None = None
    freed_bytes: int = 0
