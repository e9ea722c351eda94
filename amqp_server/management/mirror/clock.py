"""The time that a mirror goes by."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Time of day, and a wait; tests turn a clock of their own."""

    def seconds(self) -> float:
        """Return the Unix time in seconds."""

    async def until(self, at_seconds: float) -> None:
        """Return at a Unix time, at once if it has passed."""


class SystemClock:
    """The clock of the machine."""

    def seconds(self) -> float:
        """Return the Unix time in seconds."""
        return time.time()

    async def until(self, at_seconds: float) -> None:
        """Return at a Unix time, at once if it has passed."""
        await asyncio.sleep(max(at_seconds - time.time(), 0))
