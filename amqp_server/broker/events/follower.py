"""A follower of events or of log lines: what waits for one reader, bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import Final

WAITING_MAX: Final = 2048
"""Lines that may wait for one follower; later ones are dropped and counted."""
WAITING_BYTES_MAX: Final = 1 << 20
"""Bytes that may wait for one follower."""


class Follower:
    """Events that wait for one reader. The event loop owns it; it never blocks the writer."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._lost = 0
        self._woken = asyncio.Event()

    def put(self, line: bytes) -> None:
        """Add a line, or count it as lost if too much waits."""
        if len(self._waiting) >= WAITING_MAX or self._waiting_bytes + len(line) > WAITING_BYTES_MAX:
            self._lost += 1
        else:
            self._waiting.append(line)
            self._waiting_bytes += len(line)
        self._woken.set()

    async def until_some(self, seconds_max: float) -> None:
        """Wait until there is something to take, at most some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max):
                await self._woken.wait()

    def take(self, count_max: int) -> tuple[list[bytes], int]:
        """Remove and return lines that wait, and how many were lost after them.

        Args:
            count_max: Most lines.
        """
        count = min(count_max, len(self._waiting))
        lines = [self._waiting.popleft() for _ in range(count)]
        self._waiting_bytes -= sum(map(len, lines))
        lost = 0
        if not self._waiting:
            lost, self._lost = self._lost, 0
            self._woken.clear()
        return lines, lost
