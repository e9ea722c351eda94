"""Being told to stop, by any thread or by a signal handler."""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final


class StopSignal:
    """Told once, and for good.

    Not a `threading.Event`: a signal handler runs in the thread that waits, perhaps while that
    holds the event's lock, and would wait for itself for ever. A `SimpleQueue` may be put to then.
    """

    def __init__(self) -> None:
        self._wakes: Final[SimpleQueue[None]] = SimpleQueue()
        self._is_told = False

    def is_set(self) -> bool:
        """Tell whether it was told."""
        return self._is_told

    def set(self) -> None:
        """Tell it; who waits goes on at once."""
        self._is_told = True
        self._wakes.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait, but not longer than until it is told; return whether it was. One thread waits.

        Args:
            seconds: At most, >= 0.
        """
        if not self._is_told:
            with suppress(Empty):
                self._wakes.get(timeout=seconds)
        return self._is_told
