"""Whether a long run goes on: looked at every second."""

import time
from collections.abc import Callable

from bench.worker import Counters

Progress = Callable[[int, int, int], None]
"""Called each second with: seconds so far, messages published, messages received."""


class ProgressWatch:
    """Looks at the counters of a run, and counts the seconds in which nothing moved.

    Attributes:
        stalled_seconds: Whole seconds without a delivery, though messages were outstanding.
    """

    def __init__(self, counters: Counters, progress: Progress | None) -> None:
        self.stalled_seconds = 0
        self._counters = counters
        self._progress = progress
        self._start = time.monotonic()
        self._seconds = 0
        self._received = 0

    def start(self) -> None:
        """Start the clock."""
        self._start = time.monotonic()

    def look(self) -> None:
        """Take the figures when another second is full; call it more often than that."""
        seconds = int(time.monotonic() - self._start)
        if seconds == self._seconds:
            return
        published = self._counters.published.value
        received = self._counters.received.value
        if received == self._received and published > received:
            self.stalled_seconds += seconds - self._seconds
        if self._progress:
            self._progress(seconds, published, received)
        self._seconds = seconds
        self._received = received
