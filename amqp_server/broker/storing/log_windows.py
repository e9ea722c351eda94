"""All windows on one log: those of the queue's consumers, and those that readers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.storing.shared_windows import SharedWindows
from amqp_server.broker.storing.window_budget import WindowBudget
from amqp_server.broker.storing.window_reader import WindowReader

if TYPE_CHECKING:
    from amqp_server.broker.storing.window_reader import ReadInWorker
    from appendlog import Log


class LogWindows:
    """The windows on one log. The event loop owns them.

    Args:
        log: Log that the windows show.
        read_in_worker: Runs a read in a worker, because the event loop never reads the disk.
        budget: Memory limit for the windows of all logs; None limits this log alone.

    Attributes:
        of_consumers: Windows of the queue's own consumers, which read the log in one sequence.
        budget: Memory limit that applies to the windows.
        are_shared: Whether any reader other than the queue's consumers has ever read the log.
    """

    def __init__(
        self, log: Log, read_in_worker: ReadInWorker, budget: WindowBudget | None = None
    ) -> None:
        self._log = log
        self._read_in_worker = read_in_worker
        self.budget = WindowBudget() if budget is None else budget
        self._shared: SharedWindows | None = None
        self.are_shared = False
        self.of_consumers = self.new_reader()

    @property
    def shared(self) -> SharedWindows:
        """Windows that all other readers share; created on first use, as few queues need them."""
        if self._shared is None:
            self._shared = SharedWindows(self._log, self._read_in_worker, self.budget)
            self.are_shared = True
        return self._shared

    @property
    def reads(self) -> int:
        """Windows read so far, for any reader."""
        return self.of_consumers.reads + (0 if self._shared is None else self._shared.reads)

    @property
    def held_bytes(self) -> int:
        """Memory that the windows use now; the cost of asking grows with their number."""
        shared = 0 if self._shared is None else self._shared.held_bytes
        return self.of_consumers.held_bytes + shared

    @property
    def failed_reads(self) -> int:
        """Reads that failed; a reader that still needs one repeats it."""
        failed = 0 if self._shared is None else self._shared.failed_reads
        return self.of_consumers.failed_reads + failed

    def new_reader(self) -> WindowReader:
        """Return windows for one more reader that shares them with no other; it closes them."""
        return WindowReader(self._log, self._read_in_worker, self.budget)

    def clear(self) -> None:
        """Release all windows."""
        self.of_consumers.clear()
        if self._shared is not None:
            self._shared.clear()

    def close(self) -> None:
        """Release all windows for good, because the log is about to be removed."""
        self.of_consumers.close()
        if self._shared is not None:
            self._shared.close()
