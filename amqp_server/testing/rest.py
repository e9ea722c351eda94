"""Waits until a broker is at rest: it waits only for its clients and for timers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.clock import ClockedServer

QUIET_TURNS: Final = 4
"""Turns of the event loop in a row without any work after which a broker is at rest.

Each reads what clients have sent. Work that passes from one task to another may not show in two.
"""
SPINS: Final = 50
"""Turns of the event loop after which the wait makes pauses, and leaves the machine to the disk."""
PAUSE_SECONDS: Final = 0.0005


class ClockError(RuntimeError):
    """The clock could not be turned, or not as far as it should. The text says why."""


class NotAtRestError(Exception):
    """A broker is still busy when the time is over. The text says with what."""


class Rest:
    """The waits for one broker, again and again, but not for ever. Its event loop owns it.

    Args:
        server: The broker.
        is_running: Returns whether it still runs.
        answer_seconds: Real time to wait after the last work while a delivery is not answered.
        seconds_max: Real time for all waits together.

    Attributes:
        count: How often the broker came to rest.
    """

    def __init__(
        self,
        server: ClockedServer,
        is_running: Callable[[], bool],
        answer_seconds: float,
        seconds_max: float,
    ) -> None:
        self.count = 0
        self._server = server
        self._is_running = is_running
        self._answer_seconds = answer_seconds
        self._end_seconds = time.perf_counter() + seconds_max

    async def come(self) -> None:
        """Return when the broker is at rest.

        Raises:
            NotAtRestError: The time is over.
            ClockError: The broker has stopped.
        """
        server = self._server
        turns = spins = 0
        steps = server.steps
        waited_seconds = 0.0
        looked_seconds = time.perf_counter()
        while True:
            await asyncio.sleep(0 if spins < SPINS else PAUSE_SECONDS)
            spins += 1
            if not self._is_running():
                raise ClockError("the broker stopped while its clock was turned")
            work = server.work
            now_seconds = time.perf_counter()
            past_seconds, looked_seconds = now_seconds - looked_seconds, now_seconds
            if steps != server.steps:
                steps = server.steps
                turns = 0
                waited_seconds = 0.0
            elif work:
                # Only steps begin the wait for answers again: the server also looks after itself
                # once in a second, and would let no longer wait come to its end.
                turns = 0
            elif turns < QUIET_TURNS:
                turns += 1
            elif self._is_answered or waited_seconds >= self._answer_seconds:
                self.count += 1
                return
            else:
                spins = SPINS
                waited_seconds += past_seconds
            if now_seconds >= self._end_seconds:
                raise NotAtRestError(work or "what clients send, or many timers")

    @property
    def _is_answered(self) -> bool:
        return not self._answer_seconds or not self._server.unanswered
