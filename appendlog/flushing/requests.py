"""Requests to a flusher, and its results."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from appendlog.append import Append
from appendlog.errors import LogFailedError
from appendlog.layout.large_chunk import Chunk
from appendlog.log import Log
from appendlog.segments.segment import Segment


@dataclass(frozen=True, slots=True)
class FlushRequest:
    """Request to append to a log; see `Log.append`.

    Attributes:
        log: Log to append to.
        append: What to append.
        roll: Whether to seal the segment afterwards; see `Log.roll`.
    """

    log: Log
    append: Append
    _: KW_ONLY
    roll: bool = False

    @property
    def chunks(self) -> Sequence[Chunk]:
        """The chunks to append; may be empty."""
        return self.append.chunks


@dataclass(frozen=True, slots=True)
class RemoveSettledRequest:
    """Request to remove settled segments; see `Log.remove_settled`.

    Attributes:
        log: Log that holds the segments.
        floor: Offset below which everything is settled, on the disk.
    """

    log: Log
    floor: int


@dataclass(frozen=True, slots=True)
class ReopenRequest:
    """Request to use a failed log again; see `Log.reopen`."""

    log: Log


@dataclass(frozen=True, slots=True)
class CompactRequest:
    """Request to rewrite a segment; see `LogReclaim.compact`. A rewrite not done frees 0 bytes.

    Attributes:
        log: Log that holds the segment.
        segment: Sealed segment that is not the last one.
        live: Ranges of its offsets that are not settled on the disk.
        live_bytes_max: Limit of live bytes; with more, a rewrite frees too little.
    """

    log: Log
    segment: Segment
    live: Sequence[tuple[int, int]]
    live_bytes_max: int


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """Request to write a log to the disk and close it; see `Log.close`."""

    log: Log


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Request to remove a log with its directory; see `Log.delete`."""

    log: Log


MaintenanceRequest = (
    RemoveSettledRequest | CompactRequest | CloseRequest | DeleteRequest | ReopenRequest
)
Request = FlushRequest | MaintenanceRequest


@dataclass(frozen=True, slots=True)
class FlushResult:
    """Result of one request.

    Attributes:
        request: Request that was submitted.
        error: Failure of the log, which stays failed; None if the request is done.
        freed_bytes: Bytes freed by a RemoveSettledRequest or CompactRequest.
    """

    request: Request
    error: LogFailedError | None = None
    freed_bytes: int = 0
