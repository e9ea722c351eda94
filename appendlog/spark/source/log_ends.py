"""Remembers where logs begin and end.

Spark asks a stream for new offsets every 10 ms. Opening a log costs a listing and some reads, so a
log is opened only if its `end` file has changed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from appendlog.segments.durable_end import END_FILE_NAME
from appendlog.spark.planning.opening import open_reader
from appendlog.spark.planning.queues import QueueLog

_END_BYTES_MAX: Final = 4096
_FEW_LOGS: Final = 20
_LOOKS_PER_SECOND: Final = 2000
"""Most looks at `end` files in a second, over all logs: a look costs some 30 us."""


@dataclass(frozen=True, slots=True)
class LogSpan:
    """Offsets `[start_offset, end_offset)` of a log.

    Attributes:
        start_offset: Lowest offset; retention may have increased it since.
        end_offset: Durable end.
    """

    start_offset: int
    end_offset: int


@dataclass(slots=True)
class _Known:
    looked_seconds: float
    end: bytes
    span: LogSpan


class LogEnds:
    """Remembers the spans of logs; not thread-safe.

    Args:
        clock: Returns seconds since any moment; never goes back.
        pause_seconds: Least seconds between two looks at a log: requests to a store cost money.
    """

    def __init__(self, clock: Callable[[], float], pause_seconds: float = 0.0) -> None:
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._known: dict[UUID, _Known] = {}

    def span_of(self, log: QueueLog) -> LogSpan:
        """Return the span of a log; an empty span if it has no directory.

        Raises:
            LogError: The files are no log that this version can read.
            OSError: A file cannot be read.
        """
        known = self._known.get(log.incarnation)
        now = self._clock()
        pause = max(self._pause_seconds, (len(self._known) - _FEW_LOGS) / _LOOKS_PER_SECOND)
        if known is not None and now < known.looked_seconds + pause:
            return known.span
        end = _read_end(log)
        if end and known is not None and known.end == end:
            known.looked_seconds = now
            return known.span
        reader = open_reader(log)
        try:
            span = LogSpan(reader.log_start_offset, reader.log_end_offset)
        finally:
            reader.close()
        self._known[log.incarnation] = _Known(now, end, span)
        return span

    def keep_only(self, logs: list[QueueLog]) -> None:
        """Remove the known ends of all other logs."""
        kept = {log.incarnation for log in logs}
        self._known = {name: known for name, known in self._known.items() if name in kept}


def _read_end(log: QueueLog) -> bytes:
    try:
        return log.filesystem.read_file(log.directory / END_FILE_NAME, _END_BYTES_MAX)
    except FileNotFoundError:
        return b""
