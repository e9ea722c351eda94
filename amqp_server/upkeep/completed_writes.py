"""Results of the flusher's threads on their way to the event loop."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from appendlog import FlushResult


class CompletedWrites:
    """Hands to the event loop, in one call, all results that arrive before it makes that call.

    Args:
        call_soon_threadsafe: Method of the event loop.
        take: Called on the event loop with results, in the order in which they arrived.
    """

    def __init__(
        self,
        call_soon_threadsafe: Callable[[Callable[[], None]], object],
        take: Callable[[Sequence[FlushResult]], None],
    ) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._take = take
        self._arrived: deque[FlushResult] = deque()
        self._is_called = False

    def add(self, results: Sequence[FlushResult]) -> None:
        """Add results, from any thread; after the loop is closed they are dropped."""
        self._arrived.extend(results)
        if not self._is_called:
            self._is_called = True
            # The loop may be closed already: then no code is left to take the results.
            with contextlib.suppress(RuntimeError):
                self._call_soon_threadsafe(self._hand_over)

    @property
    def is_empty(self) -> bool:
        """Whether no result is on its way."""
        return not self._arrived

    def _hand_over(self) -> None:
        # First: what arrives while the rest is taken asks for another call.
        self._is_called = False
        taken = [self._arrived.popleft() for _ in range(len(self._arrived))]
        if taken:
            self._take(taken)
