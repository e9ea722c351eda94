"""Long work on the event loop in slices: between two of them every other client is served."""

from __future__ import annotations

import asyncio
import time

SLICE_SECONDS = 0.002
"""How long one piece of work may keep the event loop from all others."""


class TimeSlice:
    """Says when a piece of work has used its time up. It begins when it is made.

    What the work looks at may change wherever it lets the loop go on.
    """

    def __init__(self) -> None:
        self._end_seconds = time.perf_counter() + SLICE_SECONDS

    @property
    def is_over(self) -> bool:
        """Whether the loop should go on with something else now."""
        return time.perf_counter() >= self._end_seconds

    async def yield_if_due(self) -> None:
        """Return at once, or after a turn of the loop, with a new slice, when this one is over."""
        if self.is_over:
            await asyncio.sleep(0)
            self._end_seconds = time.perf_counter() + SLICE_SECONDS
