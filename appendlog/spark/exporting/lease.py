"""Takes leases for an export, so that the server keeps what the export reads.

An export without leases is as correct, but may have to begin again: retention may remove a segment
that it reads, and compaction may remove settled messages. The export notices both.
"""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from appendlog.errors import LogError
from appendlog.reclaim.leases import HeldLease
from appendlog.spark.objects.location import Location
from appendlog.spark.planning.queues import QueueLog

LOOK_SECONDS: Final = 5.0
"""Seconds between two looks whether to renew a lease; far less than a lease lasts."""


class ExportLeases:
    """Leases of one export; a thread renews them until the `with` block ends.

    So they last while the driver waits for Spark, a task or the user. A copy in an object store
    needs none: no server removes anything there.

    An export that repeats itself keeps the lease of a log between its rounds, from the first offset
    that it has not exported: no message is removed before it is exported.

    Args:
        storage_path: Data directory.
        say: Called with a line for the user if a lease cannot be taken; from any thread.
        keeps: Whether to keep leases after `exported`.
    """

    def __init__(
        self, storage_path: Path, say: Callable[[str], None], *, keeps: bool = False
    ) -> None:
        self._storage_path = storage_path
        self._say = say
        self._keeps = keeps
        self._held: dict[QueueLog, HeldLease] = {}
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="leases", daemon=True)

    def take(self, log: QueueLog) -> None:
        """Take a lease of a whole log; warn the user if the data directory cannot be written.

        A copy in an object store needs no lease: no server removes anything there. A lease that is
        held already stays unchanged.
        """
        if log in self._held:
            return
        if Location.of(self._storage_path) is not None:
            return
        try:
            held = HeldLease.take(self._storage_path, log.vhost, log.queue, log.incarnation, 0)
        except (OSError, LogError) as error:
            self._say(
                f"note: no lease on the log of queue {log.queue}, "
                f"retention may remove what is read: {error}"
            )
            return
        with self._lock:
            self._held[log] = held

    def hold_from(self, log: QueueLog, low_offset: int) -> None:
        """Release the offsets below an offset: the export does not read them."""
        with self._lock:
            self._try(log, lambda held: held.renew(low_offset))

    def exported(self, log: QueueLog, end_offset: int) -> None:
        """End the lease of a log, or keep it from the end of what is exported on."""
        if self._keeps:
            self.hold_from(log, end_offset)
        else:
            self.end(log)

    def failed(self, log: QueueLog, *, is_final: bool) -> None:
        """End the lease of a log, or keep it for the next round, if that may succeed.

        Args:
            log: Log of which nothing was exported.
            is_final: Whether another round would fail too. Retention would keep the log for ever.
        """
        if is_final or not self._keeps:
            self.end(log)

    def end_others(self, logs: Iterable[QueueLog]) -> None:
        """End the leases of all logs but these."""
        for log in self._held.keys() - set(logs):
            self.end(log)

    def end(self, log: QueueLog) -> None:
        """End the lease of a log."""
        with self._lock:
            held = self._held.pop(log, None)
            if held is not None:
                held.end()

    def renew_when_due(self) -> None:
        """Renew the leases that have lasted half of their time."""
        with self._lock:
            for log in list(self._held):
                self._try(log, HeldLease.renew_when_due)

    def __enter__(self) -> Self:
        self._renewing.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._renewing.join()
        for log in list(self._held):
            self.end(log)

    def _renew(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            self.renew_when_due()

    def _try(self, log: QueueLog, do: Callable[[HeldLease], None]) -> None:
        held = self._held.get(log)
        if held is None:
            return
        try:
            do(held)
        except OSError as error:
            del self._held[log]
            self._say(f"note: the lease on the log of queue {log.queue} cannot be renewed: {error}")
