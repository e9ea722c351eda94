"""Order of the appends that wait for the disk: payers share it, whatever each of them asks for.

Each *payer*, such as a client, has a line of logs and a clock that counts what it has written. The
line with the lowest clock is served next, one log at a time, so a payer that writes little goes
before those that write much. A line gets a limited part of the threads and of the octets under way:
the rest of the threads is free for the next payer at any time.

Source: start-time fair queueing (Goyal, Vin, Cheng, 1996), without weights.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Final

from appendlog.flushing.requests import FlushRequest, MaintenanceRequest, Request
from appendlog.log import Log

WRITE_OCTETS: Final = 256 * 1024
"""Octets that a write counts beside its chunks: its sync delays others as much as these."""
BATCH_OCTETS_MAX: Final = 16 << 20
"""Octets from which a batch takes no further append of its log."""
LINE_OCTETS_MAX: Final = 16 << 20
"""Octets under way from which a line is not served: the page cache and the disk are shared too."""


class Line:
    """The logs of one payer that wait, first in, first out.

    Args:
        payer: Whom the line belongs to.

    Attributes:
        clock_octets: What the line has written; raised to the clock of the line that was served
            last when it had nothing that could be written. Waiting for nothing saves up nothing.
        is_queued: Whether the line waits among the others for its clock to be the lowest.
    """

    __slots__ = ("clock_octets", "is_queued", "octets_under_way", "payer", "waiting", "writes")

    def __init__(self, payer: Hashable) -> None:
        self.payer = payer
        self.clock_octets = 0
        self.is_queued = False
        self.waiting: deque[Log] = deque()
        self.writes = 0
        self.octets_under_way = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Appends to one log that are written together.

    Attributes:
        log: Log to append to.
        requests: The appends, at least one, in the order of their submission.
        octets: Size of their chunks.
        line: Line that pays.
    """

    log: Log
    requests: list[FlushRequest]
    octets: int
    line: Line


class WriteOrder:
    """Requests that wait, and logs that are being written. The caller has a lock.

    Requests of one log keep their order, and each log is in one batch at a time.

    Args:
        maintain: Called with a request other than an append when all appends of its log that were
            added before it are done.
        line_writes_max: Maximum number of logs of one payer that are written in parallel, >= 1.
    """

    def __init__(
        self, maintain: Callable[[MaintenanceRequest], None], line_writes_max: int
    ) -> None:
        self._maintain = maintain
        self._line_writes_max = line_writes_max
        self._clock_octets = 0
        self._entries = count()
        # (clock, order of entry, line): the order decides between equal clocks. A line without
        # waiting logs stays until its clock is the lowest: it must not come back with a lower one.
        self._queued: list[tuple[int, int, Line]] = []
        self._lines: dict[Hashable, Line] = {}
        # A log is here while it waits in a line, with an append in front, or is being written.
        self._waiting: dict[Log, deque[tuple[Request, Hashable]]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no request waits and no log is being written."""
        return not self._waiting

    @property
    def has_next(self) -> bool:
        """Whether `take` returns a batch."""
        return self._first() is not None

    def add(self, request: Request, payer: Hashable) -> None:
        """Add a request behind those of the same log.

        Args:
            request: Request to add.
            payer: Who pays for it. If its log waits already, in the line of another payer, that
                one pays.
        """
        waiting = self._waiting.get(request.log)
        if waiting is not None:
            waiting.append((request, payer))
        elif isinstance(request, FlushRequest):
            self._waiting[request.log] = deque([(request, payer)])
            self._enter(request.log, payer)
        else:
            self._maintain(request)

    def take(self) -> Batch | None:
        """Return the appends to write next, or None; `written` and `done` must follow."""
        line = self._first()
        return None if line is None else self._take_from(line)

    def take_more(self, written: Batch) -> Batch | None:
        """Return the appends to write next if they are of the same line as a batch, or None."""
        line = self._first()
        return self._take_from(line) if line is written.line else None

    def written(self, batch: Batch) -> None:
        """Let another thread write logs of the same line."""
        line = batch.line
        line.writes -= 1
        line.octets_under_way -= batch.octets
        if not line.is_queued:
            self._queue(line)

    def done(self, batch: Batch) -> None:
        """Let the requests behind a batch go on, because its results are reported."""
        waiting = self._waiting[batch.log]
        while waiting:
            request, payer = waiting[0]
            if isinstance(request, FlushRequest):
                self._enter(batch.log, payer)
                return
            waiting.popleft()
            self._maintain(request)
        del self._waiting[batch.log]

    def _take_from(self, line: Line) -> Batch:
        """Return the appends of the first line's first log."""
        heappop(self._queued)
        self._clock_octets = line.clock_octets
        log = line.waiting.popleft()
        waiting = self._waiting[log]
        requests: list[FlushRequest] = []
        octets = 0
        while waiting and octets < BATCH_OCTETS_MAX:
            request = waiting[0][0]
            if not isinstance(request, FlushRequest):
                break
            waiting.popleft()
            requests.append(request)
            octets += sum(map(len, request.chunks))
        line.writes += 1
        line.octets_under_way += octets
        line.clock_octets += WRITE_OCTETS + octets
        self._push(line)
        return Batch(log, requests, octets, line)

    def _enter(self, log: Log, payer: Hashable) -> None:
        """Let a log wait in the line of a payer."""
        line = self._lines.get(payer)
        if line is None:
            line = self._lines[payer] = Line(payer)
        line.waiting.append(log)
        if not line.is_queued:
            self._queue(line)

    def _queue(self, line: Line) -> None:
        """Let a line that was not served for a while wait among the others."""
        line.clock_octets = max(line.clock_octets, self._clock_octets)
        self._push(line)

    def _push(self, line: Line) -> None:
        line.is_queued = True
        heappush(self._queued, (line.clock_octets, next(self._entries), line))

    def _first(self) -> Line | None:
        """Return the line to serve next, or None; lines that cannot be served leave."""
        while self._queued:
            line = self._queued[0][2]
            if line.waiting and self._may_write(line):
                return line
            heappop(self._queued)
            line.is_queued = False
            if not line.waiting and not line.writes:
                del self._lines[line.payer]
        return None

    def _may_write(self, line: Line) -> bool:
        return line.writes < self._line_writes_max and line.octets_under_way < LINE_OCTETS_MAX
