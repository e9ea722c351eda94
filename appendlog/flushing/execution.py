"""Execution of requests on a log; a failure is a result, never an exception."""

import logging
from collections.abc import Sequence
from dataclasses import replace

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
from appendlog.reclaim.compaction import CompactionAbandonedError

logger = logging.getLogger("appendlog.flushing.carrying_out")


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
        # A bug: memory and disk may differ now, so the log must not be used further.
        logger.exception("flusher failed log=%s", log.directory)
        return log.fail(log.directory, error), 0
    return None, freed_bytes


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
