"""The share of the event loop that TLS handshakes get, and how many are under way.

One step of a handshake takes a millisecond or more: it signs with the private key. When thousands
of clients connect at once, their steps run a few a turn, between the work of open connections.
Handshakes above the limit wait unread, so that what each keeps in memory is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final, Protocol

TURN_SECONDS: Final = 0.001
"""Time after which no further step begins in a turn of the loop."""


class Handshake(Protocol):
    """One handshake, as its queue uses it."""

    def start(self) -> None:
        """Begin: there is room for it."""

    def step(self) -> None:
        """Handle what the client has sent."""


class Handshakes:
    """The handshakes of one server. The event loop owns it.

    Args:
        count_max: Handshakes that may be under way at the same time; others wait.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._active: set[Handshake] = set()
        self._waiting: dict[Handshake, None] = {}
        self._due: deque[Handshake] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        """Return the number of handshakes that are under way or wait."""
        return len(self._active) + len(self._waiting)

    def add(self, handshake: Handshake) -> None:
        """Start a handshake now, or when there is room."""
        if len(self._active) < self._count_max:
            self._active.add(handshake)
            handshake.start()
        else:
            self._waiting[handshake] = None

    def remove(self, handshake: Handshake) -> None:
        """Note that a handshake has ended; a second call does nothing."""
        self._waiting.pop(handshake, None)
        if handshake in self._active:
            self._active.discard(handshake)
            if self._waiting:
                following = next(iter(self._waiting))
                del self._waiting[following]
                self._active.add(following)
                following.start()

    def step_later(self, handshake: Handshake) -> None:
        """Call `step` of a handshake in its turn; it must not be in the queue already."""
        self._due.append(handshake)
        self._schedule()

    def _schedule(self) -> None:
        if self._due and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        end = time.perf_counter() + TURN_SECONDS
        while self._due:
            handshake = self._due.popleft()
            if handshake in self._active:
                handshake.step()
            if time.perf_counter() >= end:
                break
        self._schedule()
