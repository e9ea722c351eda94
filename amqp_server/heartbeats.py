"""Heartbeats of all connections by one timer: a wheel of seconds."""

from __future__ import annotations

import asyncio
from typing import Protocol

WHEEL_SLOTS = 64
"""Seconds on the wheel; a longer wait goes round more than once."""
SILENT_INTERVALS_MAX = 2
"""Intervals without an octet after which a peer counts as gone."""


class Beating(Protocol):
    """A connection that wants heartbeats."""

    heartbeat_seconds: int

    def beat(self) -> None:
        """Half an interval has passed: send a heartbeat if nothing else was sent."""

    def take_silence(self) -> bool:
        """Return whether nothing has arrived since the last call, though it was listened to."""

    def abandon(self, reason: str) -> None:
        """Drop the connection: its peer is gone."""


class HeartbeatWheel:
    """Calls each connection every half interval; costs one timer for all of them."""

    def __init__(self) -> None:
        self._slots: list[dict[Beating, int]] = [{} for _ in range(WHEEL_SLOTS)]
        self._silent: dict[Beating, int] = {}
        self._slot_of: dict[Beating, int] = {}
        self._now = 0

    def add(self, connection: Beating) -> None:
        """Begin to watch a connection whose interval is not 0."""
        self._silent[connection] = 0
        self._schedule(connection)

    def remove(self, connection: Beating) -> None:
        """Stop watching a connection; one that is not watched is passed over.

        Nothing is kept of it: a slot may be hours away, and clients that connect for one message
        would pile up in it.
        """
        if self._silent.pop(connection, None) is not None:
            self._slots[self._slot_of.pop(connection)].pop(connection, None)

    async def turn(self) -> None:
        """Turn for ever, a slot a second."""
        while True:
            await asyncio.sleep(1)
            self.tick()

    def tick(self) -> None:
        """Let one second pass."""
        self._now += 1
        slot = self._now % WHEEL_SLOTS
        due, self._slots[slot] = self._slots[slot], {}
        for connection, rounds in due.items():
            if connection not in self._silent:
                continue
            if rounds > 0:
                self._slots[slot][connection] = rounds - 1
                continue
            self._serve(connection)

    def _serve(self, connection: Beating) -> None:
        silent = self._silent[connection] + 1 if connection.take_silence() else 0
        self._silent[connection] = silent
        if silent * _half(connection) >= SILENT_INTERVALS_MAX * connection.heartbeat_seconds:
            self.remove(connection)
            connection.abandon(f"missed heartbeats, timeout: {connection.heartbeat_seconds}s")
            return
        connection.beat()
        self._schedule(connection)

    def _schedule(self, connection: Beating) -> None:
        wait = _half(connection)
        slot = self._slot_of[connection] = (self._now + wait) % WHEEL_SLOTS
        self._slots[slot][connection] = (wait - 1) // WHEEL_SLOTS


def _half(connection: Beating) -> int:
    """Return the seconds between two beats: half an interval, in whole seconds, rounded up."""
    return -(-connection.heartbeat_seconds // 2)
