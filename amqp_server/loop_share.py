"""Long work on the event loop, in slices: the loop goes on with everything else between them."""

from __future__ import annotations

import asyncio
import time

SLICE_SECONDS = 0.002
"""How long background work may keep the event loop from everything else."""


class LoopShare:
    """Gives the loop back when a slice has been used up.

    What the work looks at may change wherever it calls `breathe`.
    """

    def __init__(self) -> None:
        self._end_seconds = time.perf_counter() + SLICE_SECONDS

    async def breathe(self) -> None:
        """Return at once, or after a turn of the loop when the slice is used up."""
        if time.perf_counter() >= self._end_seconds:
            await asyncio.sleep(0)
            self._end_seconds = time.perf_counter() + SLICE_SECONDS
