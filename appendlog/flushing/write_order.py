"""Order of the appends that wait for the disk: clients share it, whatever each of them asks for.

Each write is charged to a client. A client has logs that wait, and a clock that counts what it has
written. The client with the lowest clock is served next, one log at a time, so a client that writes
little goes before those that write much. A client gets a limited part of the threads and of the
octets under way: the rest of the threads is free for the next client at any time.

Source: start-time fair queueing (Goyal, Vin, Cheng, 1996), without weights.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Final

from appendlog.flushing.requests import FlushRequest, MaintenanceRequest, Request
from appendlog.log import Log

WRITE_OCTETS: Final = 256 * 1024
"""Octets that a write counts beside its chunks: its sync delays others as much as these."""
BATCH_OCTETS_MAX: Final = 16 << 20
"""Octets from which a batch takes no further append of its log."""
CLIENT_OCTETS_MAX: Final = 16 << 20
"""Octets under way from which a client is not served: clients share page cache and disk too."""


@dataclass(eq=False, slots=True)
class ClientLogs:
    """The logs of one client that wait to be written, first in, first out.

    Attributes:
        client: The client; any key.
        clock_octets: What the client has written; raised to the clock of the client that was served
            last when it had nothing that could be written. Waiting for nothing saves up nothing.
        is_queued: Whether the client waits among the others for its clock to be the lowest.
        waiting: Logs that wait.
        writes: Number of its logs that are being written.
        octets_under_way: Octets that are being written.
    """

    client: Hashable
    clock_octets: int = 0
    is_queued: bool = False
    waiting: deque[Log] = field(default_factory=deque)
    writes: int = 0
    octets_under_way: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Appends to one log that are written together.

    Attributes:
        log: Log to append to.
        requests: The appends, at least one, in the order of their submission.
        octets: Size of their chunks.
        client_logs: Logs of the client that the write is charged to.
    """

    log: Log
    requests: list[FlushRequest]
    octets: int
    client_logs: ClientLogs


class WriteOrder:
    """Requests that wait, and logs that are being written.

    Requests of one log keep their order, and each log is in one batch at a time.

    Args:
        maintain: Called with a request other than an append when all appends of its log that were
            added before it are done.
        client_writes_max: Maximum number of logs of one client that are written in parallel, >= 1.

    Attributes:
        waiting_count: Number of logs that wait for a client, including those of clients that write
            as much as they may.
    """

    def __init__(
        self, maintain: Callable[[MaintenanceRequest], None], client_writes_max: int
    ) -> None:
        self._maintain = maintain
        self._client_writes_max = client_writes_max
        self.waiting_count = 0
        self._clock_octets = 0
        self._entries = count()
        # (clock, order of entry, logs of a client): the order decides between equal clocks. A
        # client without waiting logs stays until its clock is the lowest: it must not come back
        # with a lower one.
        self._queued: list[tuple[int, int, ClientLogs]] = []
        self._by_client: dict[Hashable, ClientLogs] = {}
        # A log is here while it waits for a client, with an append in front, or is being written.
        self._waiting: dict[Log, deque[tuple[Request, Hashable]]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no request waits and no log is being written."""
        return not self._waiting

    def add(self, request: Request, charged_client: Hashable) -> None:
        """Add a request behind those of the same log.

        Args:
            request: Request to add.
            charged_client: Client that it is charged to. If its log waits already, the client that
                it waits for is charged.
        """
        waiting = self._waiting.get(request.log)
        if waiting is not None:
            waiting.append((request, charged_client))
        elif isinstance(request, FlushRequest):
            self._waiting[request.log] = deque([(request, charged_client)])
            self._enter(request.log, charged_client)
        else:
            self._maintain(request)

    def take(self) -> Batch | None:
        """Return the appends to write next, or None; `written` and `done` must follow.

        They are those of the first log of the client that is the next.
        """
        logs = self._first()
        if logs is None:
            return None
        self._clock_octets = logs.clock_octets
        log = logs.waiting.popleft()
        self.waiting_count -= 1
        waiting = self._waiting[log]
        requests: list[FlushRequest] = []
        octets = 0
        while waiting and octets < BATCH_OCTETS_MAX:
            request = waiting[0][0]
            if not isinstance(request, FlushRequest):
                break
            waiting.popleft()
            requests.append(request)
            octets += sum(map(len, request.append.chunks))
        logs.writes += 1
        logs.octets_under_way += octets
        logs.clock_octets += WRITE_OCTETS + octets
        heapreplace(self._queued, (logs.clock_octets, next(self._entries), logs))
        return Batch(log, requests, octets, logs)

    def written(self, batch: Batch) -> None:
        """Let another thread write logs of the same client."""
        logs = batch.client_logs
        logs.writes -= 1
        logs.octets_under_way -= batch.octets
        if not logs.is_queued:
            self._queue(logs)

    def done(self, batch: Batch) -> None:
        """Let the requests behind a batch go on, because its results are reported."""
        waiting = self._waiting[batch.log]
        while waiting:
            request, charged_client = waiting[0]
            if isinstance(request, FlushRequest):
                self._enter(batch.log, charged_client)
                return
            waiting.popleft()
            self._maintain(request)
        del self._waiting[batch.log]

    def _enter(self, log: Log, charged_client: Hashable) -> None:
        """Let a log wait among those of a client."""
        logs = self._by_client.get(charged_client)
        if logs is None:
            logs = self._by_client[charged_client] = ClientLogs(charged_client)
        logs.waiting.append(log)
        self.waiting_count += 1
        if not logs.is_queued:
            self._queue(logs)

    def _queue(self, logs: ClientLogs) -> None:
        """Let a client that was not served for a while wait among the others."""
        logs.clock_octets = max(logs.clock_octets, self._clock_octets)
        logs.is_queued = True
        heappush(self._queued, (logs.clock_octets, next(self._entries), logs))

    def _first(self) -> ClientLogs | None:
        """Return the logs of the next client, or None; clients that cannot be served leave."""
        while self._queued:
            logs = self._queued[0][2]
            if (
                logs.waiting
                and logs.writes < self._client_writes_max
                and logs.octets_under_way < CLIENT_OCTETS_MAX
            ):
                return logs
            heappop(self._queued)
            logs.is_queued = False
            if not logs.waiting and not logs.writes:
                del self._by_client[logs.client]
        return None
