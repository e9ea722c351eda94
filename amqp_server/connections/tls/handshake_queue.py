"""Queue of TLS handshakes: limits their time in a turn of the loop and their number.

One step of a handshake takes a millisecond or more: it signs with the private key. When thousands
of clients connect at once, their steps run a few a turn, between the work of open connections.
Handshakes above the limit wait unread, so that what each keeps in memory is bounded. A client that
connects and sends nothing keeps its place for seconds: so no address gets more than a part of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from typing import Final, Protocol

TURN_SECONDS: Final = 0.001
"""Time after which no further step begins in a turn of the loop."""
ADDRESSES_MIN: Final = 4
"""Addresses that it takes to occupy all places."""


class Handshake(Protocol):
    """One handshake, as its queue uses it.

    Attributes:
        address: IP address of the client; stays as it is.
    """

    address: str

    def start(self) -> None:
        """Begin: there is room for it."""

    def step(self) -> None:
        """Handle what the client has sent."""


class HandshakeQueue:
    """The TLS handshakes of one server. The event loop owns it.

    Args:
        count_max: Handshakes that may be under way at the same time; others wait. One
            address has at most the part of them that `ADDRESSES_MIN` says.
    """

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._count_per_address_max = max(count_max // ADDRESSES_MIN, 1)
        self._active: set[Handshake] = set()
        self._active_counts: Counter[str] = Counter()
        # By address, the one whose turn is next first; there is none without handshakes.
        self._waiting: dict[str, dict[Handshake, None]] = {}
        self._waiting_count = 0
        self._due: deque[Handshake] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        """Return the number of handshakes that are under way or wait."""
        return len(self._active) + self._waiting_count

    def add(self, handshake: Handshake) -> None:
        """Start a handshake now, or when there is room."""
        if len(self._active) < self._count_max and self._has_place(handshake.address):
            self._start(handshake)
        else:
            self._waiting.setdefault(handshake.address, {})[handshake] = None
            self._waiting_count += 1

    def remove(self, handshake: Handshake) -> None:
        """Remove a handshake that has ended; a second call does nothing."""
        address = handshake.address
        waiting = self._waiting.get(address, {})
        if handshake in waiting:
            self._take(address, handshake)
        elif handshake in self._active:
            self._active.discard(handshake)
            self._active_counts[address] -= 1
            if not self._active_counts[address]:
                del self._active_counts[address]
            self._start_next()

    def _has_place(self, address: str) -> bool:
        return self._active_counts[address] < self._count_per_address_max

    def _start(self, handshake: Handshake) -> None:
        self._active.add(handshake)
        self._active_counts[handshake.address] += 1
        handshake.start()

    def _start_next(self) -> None:
        """Start the first handshake of the next address that has a place, if one waits."""
        # Addresses without a place are few: each holds a part of all places.
        address = next(filter(self._has_place, self._waiting), None)
        if address is not None:
            handshake = next(iter(self._waiting[address]))
            self._take(address, handshake)
            if address in self._waiting:
                # To the end: the others come first.
                self._waiting[address] = self._waiting.pop(address)
            self._start(handshake)

    def _take(self, address: str, handshake: Handshake) -> None:
        """Remove a handshake from those that wait."""
        waiting = self._waiting[address]
        del waiting[handshake]
        self._waiting_count -= 1
        if not waiting:
            del self._waiting[address]

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
