"""Progress of a long run, looked at every second."""

import time
from collections.abc import Callable

from bench.worker import Counters

Report = Callable[[int, int, int], None]
"""Called each second with: seconds so far, messages published, messages received."""


class ProgressWatch:
    """Reports the counters of a run every second, and counts the seconds without a delivery.

    Args:
        report: Called each second.

    Attributes:
        stalled_seconds: Whole seconds without a delivery although messages were in the queue.
    """

    def __init__(self, report: Report) -> None:
        self.stalled_seconds = 0
        self._report = report
        self._start: float | None = None
        self._seconds = 0
        self._received = 0

    def look(self, counters: Counters) -> None:
        """Look at the counters if another second has passed; call it ten times a second."""
        now = time.monotonic()
        if self._start is None:
            self._start = now
        seconds = int(now - self._start)
        if seconds == self._seconds:
            return
        published, received = counters.published.value, counters.received.value
        if received == self._received and published > received:
            self.stalled_seconds += seconds - self._seconds
        self._report(seconds, published, received)
        self._seconds = seconds
        self._received = received
