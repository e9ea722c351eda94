"""Requests that wait for a place, in turn for each address."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

WAITING_MAX: Final = 4096
"""Requests that may wait; above that a new one is refused."""
WAITING_PER_ADDRESS_MAX: Final = 256
"""Requests for clients of one address that may wait."""


class CrowdedError(Exception):
    """Too many requests wait.

    Attributes:
        is_of_address: Whether they are those of the address that asks; else those of all.
    """

    def __init__(self, *, is_of_address: bool) -> None:
        super().__init__("too many requests wait")
        self.is_of_address = is_of_address


class WaitingList:
    """Gives out a number of places; waiting requests get them in turn for each address.

    So many logins from one address delay those of others by one request each, and never take all
    places. The event loop owns it.

    Args:
        places: Requests that may be under way at the same time.
        places_per_address: Of these, those of one address.
    """

    def __init__(self, places: int, places_per_address: int) -> None:
        self._free = places
        self._places_per_address = places_per_address
        self._taken: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many requests wait."""
        return self._count

    @asynccontextmanager
    async def place(self, address: str) -> AsyncIterator[None]:
        """Take a place during the block; a cancelled caller leaves the list.

        Args:
            address: Address of the client that makes the request.

        Raises:
            CrowdedError: Too many requests wait, of this address or of all.
        """
        if self._may_begin(address):
            self._free -= 1
            self._taken[address] += 1
        else:
            await self._wait(address)
        try:
            yield
        finally:
            self._release(address)

    def _may_begin(self, address: str) -> bool:
        return self._free > 0 and self._taken[address] < self._places_per_address

    async def _wait(self, address: str) -> None:
        waiting = self._waiting.get(address, ())
        if len(waiting) >= WAITING_PER_ADDRESS_MAX:
            raise CrowdedError(is_of_address=True)
        if self._count >= WAITING_MAX:
            raise CrowdedError(is_of_address=False)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._count += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(address, turn)
            else:
                # It was given a place in the same moment.
                self._release(address)
            raise

    def _leave(self, address: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(address)
        if waiting is None or turn not in waiting:
            return
        waiting.remove(turn)
        self._count -= 1
        if not waiting:
            del self._waiting[address]

    def _release(self, address: str) -> None:
        """Take a place back, and give it to the first one of the next address that may have it."""
        self._free += 1
        self._taken[address] -= 1
        if not self._taken[address]:
            del self._taken[address]
        while not self._give_place():
            pass

    def _give_place(self) -> bool:
        """Give a free place away; return False if the one whose turn it was has just gone."""
        # Few addresses can have all of their places, so the one that may begin is near the front.
        address = next(filter(self._may_begin, self._waiting), None)
        if address is None:
            return True
        waiting = self._waiting.pop(address)
        turn = waiting.popleft()
        self._count -= 1
        if waiting:
            # To the end: the others come first.
            self._waiting[address] = waiting
        if turn.done():
            return False
        self._free -= 1
        self._taken[address] += 1
        turn.set_result(None)
        return True
