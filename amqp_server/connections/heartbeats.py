"""Sends the heartbeats of all connections with one timer: a wheel of half seconds.

Each connection is served exactly every half interval: an interval of n seconds is n slots of the
wheel. If a long turn of the event loop delays the wheel by less than a slot, it catches up.

Source: AMQP 0-9-1 specification, section 4.2.7; RabbitMQ sends a heartbeat every half interval.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

WHEEL_SLOTS = 128
"""Slots of the wheel, each half a second; a longer wait takes several rounds."""
TICK_SECONDS = 0.5
"""Seconds between two slots of the wheel."""
SILENT_INTERVALS_MAX = 2
"""Intervals without an octet after which a peer counts as gone."""


class Beating(Protocol):
    """A connection that needs heartbeats."""

    heartbeat_seconds: int

    def beat(self) -> None:
        """Send a heartbeat if nothing else was sent in the last half interval."""

    def take_silence(self) -> bool:
        """Return whether nothing arrived since the last call although the server could read."""

    def abandon(self, reason: str) -> None:
        """Close the connection at once: its peer is gone."""


class HeartbeatWheel:
    """Serves each connection every half interval, with one timer for all of them."""

    def __init__(self) -> None:
        self._slots: list[dict[Beating, int]] = [{} for _ in range(WHEEL_SLOTS)]
        self._silent: dict[Beating, int] = {}
        self._slot_of: dict[Beating, int] = {}
        self._now = 0

    def __len__(self) -> int:
        """Return the number of connections that are watched."""
        return len(self._silent)

    def add(self, connection: Beating) -> None:
        """Begin to watch a connection; its interval must not be 0."""
        self._silent[connection] = 0
        self._schedule(connection)

    def remove(self, connection: Beating) -> None:
        """Stop watching a connection; ignore one that is not watched.

        The wheel must keep no reference to it: its slot may be hours away, and clients that connect
        for a single message would pile up in it.
        """
        if self._silent.pop(connection, None) is not None:
            self._slots[self._slot_of.pop(connection)].pop(connection, None)

    async def turn(self) -> None:
        """Turn the wheel a slot each half second until cancelled; catch up with shorter delays.

        Longer delays are not caught up with: ticks without a pause between them would read no
        octets, and each of them would count as silence of the peer.
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
        """Serve the connections in the next slot."""
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
        # Half an interval of n seconds is n slots of half a second.
        wait = connection.heartbeat_seconds
        slot = self._slot_of[connection] = (self._now + wait) % WHEEL_SLOTS
        self._slots[slot][connection] = (wait - 1) // WHEEL_SLOTS
