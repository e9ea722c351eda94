"""Execution of requests on a log; a failure is a result, never an exception."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from appendlog.errors import LogFailedError
from appendlog.flushing.requests import (
    CloseRequest,
    CompactRequest,
    DeleteRequest,
    FlushRequest,
    RemoveSettledRequest,
    ReopenRequest,
    Request,
)
from appendlog.log import Log
from appendlog.reclaim.compaction import CompactionAbandonedError
from appendlog.segments.segment_write import SegmentWrite

logger = logging.getLogger("appendlog.flushing.carrying_out")

_BUG: Final = "flusher failed log=%s"
"""A bug of ours: memory and disk may differ now, so the log must not be used further."""


def carry_out(group: Sequence[Request]) -> tuple[LogFailedError | None, int]:
    """Carry out requests for one log; return the failure, if any, and the bytes freed.

    Args:
        group: Appends, which are merged into one; or one other request.
    """
    request = group[-1]
    log = request.log
    freed_bytes = 0
    try:
        if isinstance(request, FlushRequest):
            if len(group) > 1:
                request = _merged([each for each in group if isinstance(each, FlushRequest)])
            log.append(request.append)
            if request.roll:
                log.roll()
        elif isinstance(request, RemoveSettledRequest):
            freed_bytes = log.remove_settled(request.floor)
        elif isinstance(request, CompactRequest):
            freed_bytes = _compact(request)
        elif isinstance(request, ReopenRequest):
            log.reopen()
        elif isinstance(request, CloseRequest):
            log.close()
        elif isinstance(request, DeleteRequest):
            log.delete()
    except LogFailedError as error:
        return error, 0
    except Exception as error:
        logger.exception(_BUG, log.directory)
        return log.fail(log.directory, error), 0
    return None, freed_bytes


def prepare(group: Sequence[FlushRequest]) -> SegmentWrite | None:
    """Return what there is to write if the appends of a group are only that.

    Does not wait. Returns None if `carry_out` has to make them, also if their log has failed.

    Args:
        group: Appends to one log.
    """
    request = group[0] if len(group) == 1 else _merged(group)
    if request.roll:
        return None
    log = request.log
    try:
        return log.prepare(request.append)
    except Exception as error:
        logger.exception(_BUG, log.directory)
        log.fail(log.directory, error)
        return None


def write_prepared(write: SegmentWrite) -> None:
    """Write what was prepared, in any thread; a failure is a result."""
    try:
        write.write()
    except Exception as error:
        logger.exception(_BUG, write.path.parent)
        write.error = error


def complete(log: Log, write: SegmentWrite) -> LogFailedError | None:
    """Take in the result of a prepared write, and return the log's failure, if any.

    Does not wait.
    """
    try:
        log.complete(write)
    except LogFailedError as error:
        return error
    except Exception as error:
        logger.exception(_BUG, log.directory)
        return log.fail(log.directory, error)
    return None


def _merged(requests: Sequence[FlushRequest]) -> FlushRequest:
    """Return one request for all that these want from their log, in order."""
    last = requests[-1]
    chunks = [chunk for request in requests for chunk in request.append.chunks]
    sync = any(request.append.sync for request in requests)
    roll = any(request.roll for request in requests)
    return FlushRequest(last.log, replace(last.append, chunks=chunks, sync=sync), roll=roll)


def _compact(request: CompactRequest) -> int:
    """Rewrite a segment; if that is not possible, everything stays unchanged."""
    try:
        return request.log.reclaim.compact(request.segment, request.live, request.live_bytes_max)
    except CompactionAbandonedError as error:
        logger.info("segment not compacted reason=%s", error)
    except OSError as error:
        logger.warning("segment not compacted path=%s error=%s", request.segment.path, error)
    return 0
