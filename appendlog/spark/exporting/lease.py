"""What an export asks of a running server: to leave alone what is being read.

Without a lease an export is as right as with one, but may have to begin again: retention may
remove a segment under it, which it finds out, and compaction what is settled.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from appendlog.errors import LogError
from appendlog.reclaim.leases import HeldLease
from appendlog.spark.exporting.export import OnProgress
from appendlog.spark.objects.location import Location
from appendlog.spark.planning.queues import QueueLog


class ExportLease:
    """The lease of one export; None where it cannot have one.

    Args:
        held: The lease.
        say: Tells the user that it was lost.
    """

    def __init__(self, held: HeldLease | None, say: Callable[[str], None]) -> None:
        self._held = held
        self._say = say

    def hold_from(self, low_offset: int) -> None:
        """Let go of what is below an offset: it is not read."""
        self._try(lambda held: held.renew(low_offset))

    def renewing(self, on_progress: OnProgress) -> OnProgress:
        """Return what renews the lease in time, and then tells of progress."""

        def progress(done: int, total: int) -> None:
            self._try(HeldLease.renew_when_due)
            on_progress(done, total)

        return progress

    def end(self) -> None:
        """Give the lease back."""
        if self._held is not None:
            self._held.end()

    def _try(self, do: Callable[[HeldLease], None]) -> None:
        if self._held is None:
            return
        try:
            do(self._held)
        except OSError as error:
            self._held = None
            self._say(f"note: the lease on the log cannot be renewed: {error}")


@contextmanager
def lease_for_export(
    storage_path: Path, log: QueueLog, low_offset: int, say: Callable[[str], None]
) -> Iterator[ExportLease]:
    """Hold a lease on the log from an offset on, if the data directory can be written.

    A copy in an object store needs none: no server removes anything there.

    Args:
        storage_path: The data directory.
        log: Of the queue.
        low_offset: Nothing at or above it is to go.
        say: Tells the user that there is no lease.
    """
    if Location.of(storage_path) is not None:
        yield ExportLease(None, say)
        return
    held = None
    try:
        held = HeldLease.take(storage_path, log.vhost, log.queue, log.incarnation, low_offset)
    except (OSError, LogError) as error:
        say(f"note: no lease on the log, retention may remove what is read: {error}")
    lease = ExportLease(held, say)
    try:
        yield lease
    finally:
        lease.end()
