"""Signal to stop, set by any thread or by a signal handler."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final


class StopSignal:
    """Flag that is set once and never cleared.

    Not a `threading.Event`: a signal handler runs in the waiting thread, perhaps while that holds
    the event's lock, and would deadlock. A `SimpleQueue` accepts an item even then.
    """

    def __init__(self) -> None:
        self._wakes: Final[SimpleQueue[None]] = SimpleQueue()
        self._is_set = False

    def is_set(self) -> bool:
        """Return whether the signal is set."""
        return self._is_set

    def set(self) -> None:
        """Set the signal; a waiting thread continues at once."""
        self._is_set = True
        self._wakes.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for a time or until the signal is set; return whether it is set. For one thread.

        Args:
            seconds: Longest wait, >= 0.
        """
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=seconds)
        return self._is_set
