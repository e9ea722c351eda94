"""All windows on one log: those of its queue's consumers, and those that other readers share."""

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
        log: Where to read.
        read_in_worker: The disk is never read on the loop.
        held: Bounds what all logs of the server hold; None bounds this one alone.

    Attributes:
        of_consumers: Those of the queue's own consumers, who go through the log in one line.
        held: What bounds them.
    """

    def __init__(
        self, log: Log, read_in_worker: ReadInWorker, held: WindowBudget | None = None
    ) -> None:
        self._log = log
        self._read_in_worker = read_in_worker
        self.held = WindowBudget() if held is None else held
        self._shared: SharedWindows | None = None
        self.of_consumers = self.make_own()

    @property
    def shared(self) -> SharedWindows:
        """Those that all others share; most queues never need them."""
        if self._shared is None:
            self._shared = SharedWindows(self._log, self._read_in_worker, self.held)
        return self._shared

    @property
    def are_shared(self) -> bool:
        """Whether anybody but the queue's own consumers has ever read the log."""
        return self._shared is not None

    @property
    def reads(self) -> int:
        """How many windows were read so far, whoever wanted them."""
        return self.of_consumers.reads + (0 if self._shared is None else self._shared.reads)

    @property
    def held_bytes(self) -> int:
        """Memory that they need now; how many there are bounds what this costs."""
        shared = 0 if self._shared is None else self._shared.held_bytes
        return self.of_consumers.held_bytes + shared

    @property
    def failed_reads(self) -> int:
        """How many could not be read; each is repeated while somebody waits for it."""
        failed = 0 if self._shared is None else self._shared.failed_reads
        return self.of_consumers.failed_reads + failed

    def make_own(self) -> WindowReader:
        """Return those of one more reader that goes its own way alone; it closes them."""
        return WindowReader(self._log, self._read_in_worker, self.held)

    def clear(self) -> None:
        """Let go of all of them."""
        self.of_consumers.clear()
        if self._shared is not None:
            self._shared.clear()

    def close(self) -> None:
        """Let go of them for good: the log is about to be removed."""
        self.of_consumers.close()
        if self._shared is not None:
            self._shared.close()
