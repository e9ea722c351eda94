"""Requests that wait for a place, in turn for each address."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WAITING_MAX: Final = 4096
"""Requests that may wait; above that a new one is refused."""
WAITING_PER_ADDRESS_MAX: Final = 256
"""Requests for clients of one address that may wait."""


class CrowdedError(Exception):
    """Too many requests wait."""

    def __init__(self) -> None:
        super().__init__("too many requests wait")


class WaitingLine:
    """Gives out a number of places; who waits gets one in turn for each address.

    So many logins from one address delay those of others by one request each. The event loop owns
    it.

    Args:
        places: Requests that may be under way at the same time.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many requests wait."""
        return self._count

    @asynccontextmanager
    async def place(self, address: str) -> AsyncIterator[None]:
        """Hold a place during the block; a cancelled caller leaves the line.

        Args:
            address: Whose request it is.

        Raises:
            CrowdedError: Too many requests wait, of this address or of all.
        """
        if self._free:
            self._free -= 1
        else:
            await self._wait(address)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, address: str) -> None:
        line = self._waiting.setdefault(address, deque())
        if self._count >= WAITING_MAX or len(line) >= WAITING_PER_ADDRESS_MAX:
            raise CrowdedError
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        self._count += 1
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                # It was given a place in the same moment.
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a place to the first one of the next address that waits; else it is free."""
        while self._waiting:
            address = next(iter(self._waiting))
            line = self._waiting.pop(address)
            if not line:
                continue
            turn = line.popleft()
            self._count -= 1
            if line:
                # To the end: the others come first.
                self._waiting[address] = line
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
