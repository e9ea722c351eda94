"""The journal's worker: takes write requests off the event loop, reports in rounds.

`Flusher` is the interface; `ThreadFlusher` is the reference implementation, one thread.
Each round takes everything submitted so far, so the slower the disk, the larger the
rounds. Requests for one log keep their order; appends next to each other become one.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol

from appendlog.errors import LogFailedError
from appendlog.log import Log

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlushRequest:
    """Append chunks to a log; see `Log.append`.

    Attributes:
        log: Where to.
        chunks: Encoded; may be empty.
        end_offset: Log end offset afterwards.
        sync: Put them on the disk.
    """

    log: Log
    chunks: list[bytes]
    end_offset: int
    sync: bool


@dataclass(frozen=True, slots=True)
class RemoveSettledRequest:
    """Remove settled segments; see `Log.remove_settled`.

    Attributes:
        log: Whose segments.
        floor: Offsets below it are settled, on the disk.
        keep_since_ns: Keep segments with an append time at or after this one.
    """

    log: Log
    floor: int
    keep_since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class CloseRequest:
    """Put a log on the disk and close it; see `Log.close`."""

    log: Log


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Remove a log with its directory; see `Log.delete`."""

    log: Log


Request = FlushRequest | RemoveSettledRequest | CloseRequest | DeleteRequest


@dataclass(frozen=True, slots=True)
class FlushResult:
    """What became of one request.

    Attributes:
        request: The one submitted.
        error: Why it failed; the log stays failed. None when it was done.
        freed_bytes: Of RemoveSettledRequest.
    """

    request: Request
    error: LogFailedError | None = None
    freed_bytes: int = 0


class Flusher(Protocol):
    """Whatever does the writing for the event loop."""

    def start(self) -> None:
        """Begin to work."""

    def submit(self, request: Request) -> None:
        """Take a request; from any thread, never blocks. Its result comes in a round."""

    def close(self) -> None:
        """Do what was submitted, then stop. Blocks until the last round was reported."""


class ThreadFlusher:
    """One worker thread that does the requests of all logs.

    Args:
        on_round: Called in the worker thread with the results of a round, in the order of
            submission; must be quick and hand them to the event loop.
    """

    def __init__(self, on_round: Callable[[list[FlushResult]], None]) -> None:
        self._on_round = on_round
        self._submitted: SimpleQueue[Request | None] = SimpleQueue()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="amqp-flusher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Take a request; from any thread, never blocks.

        Raises:
            RuntimeError: `close` was called before.
        """
        if self._is_closing:
            raise RuntimeError("flusher is closed")
        self._submitted.put(request)

    def close(self) -> None:
        """Do what was submitted, report it, and end the thread."""
        self._is_closing = True
        self._submitted.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        is_open = True
        while is_open:
            taken = [self._submitted.get()]
            with suppress(Empty):
                while True:
                    taken.append(self._submitted.get_nowait())
            is_open = None not in taken
            requests = [request for request in taken if request is not None]
            if requests:
                self._round(requests)

    def _round(self, requests: list[Request]) -> None:
        results: dict[int, FlushResult] = {}
        for group in grouped(requests):
            error, freed_bytes = _carry_out(group)
            for request in group:
                results[id(request)] = FlushResult(request, error, freed_bytes)
        try:
            self._on_round([results[id(request)] for request in requests])
        except Exception:
            logger.exception("flusher round not taken requests=%d", len(requests))


def grouped(requests: Sequence[Request]) -> list[list[Request]]:
    """Put appends to one log together that no other request for that log stands between."""
    groups: list[list[Request]] = []
    appends: dict[int, list[Request]] = {}
    for request in requests:
        if not isinstance(request, FlushRequest):
            appends.pop(id(request.log), None)
            groups.append([request])
        elif (group := appends.get(id(request.log))) is not None:
            group.append(request)
        else:
            appends[id(request.log)] = [request]
            groups.append(appends[id(request.log)])
    return groups


def _carry_out(group: list[Request]) -> tuple[LogFailedError | None, int]:
    """Do what a group asks for; return why not, and the bytes freed."""
    log = group[-1].log
    try:
        return None, _perform(log, group)
    except LogFailedError as error:
        return error, 0
    except Exception as error:
        # A mistake of ours: what is in memory and on the disk may differ now.
        logger.exception("flusher failed log=%s", log.directory)
        return log.fail(log.directory, error), 0


def _perform(log: Log, group: list[Request]) -> int:
    appends = [request for request in group if isinstance(request, FlushRequest)]
    if appends:
        chunks = [chunk for request in appends for chunk in request.chunks]
        log.append(chunks, appends[-1].end_offset, any(request.sync for request in appends))
        return 0
    request = group[0]
    if isinstance(request, RemoveSettledRequest):
        return log.remove_settled(request.floor, request.keep_since_ns)
    if isinstance(request, CloseRequest):
        log.close()
    elif isinstance(request, DeleteRequest):
        log.delete()
    return 0
