"""The line in which logins wait whose passwords take long to check."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WAITING_MAX: Final = 4096
"""Logins that may wait; above that a new one is refused."""
WAITING_PER_ADDRESS_MAX: Final = 64
"""Logins from one address that may wait."""


class FullLineError(Exception):
    """Too many logins wait."""


class LoginLine:
    """Runs one check at a time in a thread of its own, in turn for each address.

    So a client that tries many passwords delays the logins of others by one check each. The event
    loop owns it.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[Callable[[], bool], asyncio.Future[bool]]]] = {}
        self._count = 0
        self._worker: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def __len__(self) -> int:
        """Return how many logins wait."""
        return self._count

    async def run(self, check: Callable[[], bool], address: str) -> bool:
        """Return the result of a check when it is its turn; a cancelled caller leaves the line.

        Args:
            check: Called in the thread.
            address: IP address that the login comes from.

        Raises:
            FullLineError: Too many logins wait, of this address or of all.
            Exception: As `check` raises.
        """
        own_count = len(self._waiting.get(address, ()))
        if self._count >= WAITING_MAX or own_count >= WAITING_PER_ADDRESS_MAX:
            raise FullLineError
        result: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append((check, result))
        self._count += 1
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._work())
        return await result

    def close(self) -> None:
        """End the thread; logins that wait are cancelled."""
        for line in self._waiting.values():
            for _, result in line:
                result.cancel()
        if self._worker is not None:
            self._worker.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _work(self) -> None:
        """Take the first login of each address in turn, until none waits."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "login")
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                address = next(iter(self._waiting))
                line = self._waiting.pop(address)
                if not line:
                    continue
                check, result = line.popleft()
                self._count -= 1
                if line:
                    # To the end: the others come first.
                    self._waiting[address] = line
                if not result.done():
                    try:
                        accepted = await loop.run_in_executor(self._thread, check)
                    except Exception as error:  # noqa: BLE001 - the caller gets it; the others go on
                        if not result.done():
                            result.set_exception(error)
                        continue
                    if not result.done():
                        result.set_result(accepted)
        finally:
            self._worker = None
