"""Heartbeats of all connections by one timer: a wheel of half seconds.

A connection is served every half interval, exactly: an interval of n seconds is n places on the
wheel. A turn of the event loop that takes long delays the wheel, and the wheel catches up, unless
the server stood still for longer than a place of the wheel.

Source: AMQP 0-9-1 specification, section 4.2.7; RabbitMQ sends a heartbeat every half interval.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

WHEEL_SLOTS = 128
"""Half seconds on the wheel; a longer wait goes round more than once."""
TICK_SECONDS = 0.5
"""Time between two places of the wheel."""
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
        """Turn for ever, a place each half second; delays below that are made up for.

        A longer delay is not: between ticks that follow each other at once no peer could be heard,
        and each of them would count as silence.
        """
        loop = asyncio.get_running_loop()
        next_seconds = loop.time()
        while True:
            next_seconds += TICK_SECONDS
            if next_seconds < loop.time():
                next_seconds = loop.time() + TICK_SECONDS
            await asyncio.sleep(next_seconds - loop.time())
            self.tick()

    def tick(self) -> None:
        """Serve the connections at the next place of the wheel."""
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
        if silent >= 2 * SILENT_INTERVALS_MAX:
            self.remove(connection)
            connection.abandon(f"missed heartbeats, timeout: {connection.heartbeat_seconds}s")
            return
        connection.beat()
        self._schedule(connection)

    def _schedule(self, connection: Beating) -> None:
        # Half an interval of n seconds is n half seconds.
        wait = connection.heartbeat_seconds
        slot = self._slot_of[connection] = (self._now + wait) % WHEEL_SLOTS
        self._slots[slot][connection] = (wait - 1) // WHEEL_SLOTS
