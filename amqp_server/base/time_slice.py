"""Splits long work on the event loop into slices, between which other clients are served."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Stopwatch = Callable[[], float]
    """Returns seconds that never decrease, for the measurement of work; their zero means nothing.

    It is not a clock (`amqp_server.base.clock`): what is due at a time never asks it.
    """

SLICE_SECONDS = 0.001
"""Seconds that one piece of work may use the event loop before others get a turn.

Half of a turn: while others keep the loop busy, a client waits for an answer two thirds, for a
confirm half of the time that it would wait with slices of a whole turn. Shorter turns would make
batches smaller.
"""


class TimeSlice:
    """The time that a piece of work may use the event loop; starts when it is created.

    Any state may change while `yield_if_due` lets others run.

    Args:
        seconds: Length of a slice; None: `SLICE_SECONDS`.
        stopwatch: Measures it.

    Attributes:
        began_seconds: When it began, by its stopwatch; a new value starts a new slice.
    """

    __slots__ = ("_seconds", "_stopwatch", "began_seconds")

    def __init__(self, seconds: float | None = None, stopwatch: Stopwatch = perf_counter) -> None:
        self._seconds = seconds
        self._stopwatch = stopwatch
        self.began_seconds = stopwatch()

    @property
    def is_over(self) -> bool:
        """Whether the time is used up, so that others should get a turn."""
        seconds = SLICE_SECONDS if self._seconds is None else self._seconds
        return self._stopwatch() >= self.began_seconds + seconds

    async def yield_if_due(self) -> None:
        """If the slice is over, wait one turn of the event loop and start a new one."""
        if self.is_over:
            await asyncio.sleep(0)
            self.began_seconds = self._stopwatch()
