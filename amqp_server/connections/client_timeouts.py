"""How long a client may take: to log in, to read what was sent to it, to answer a close.

A connection waits for one of these at a time. A client that is slower is disconnected.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.limits import Limits

CLOSE_SECONDS_MAX = 2.0
"""Seconds that a peer may take to answer connection.close before its socket is closed."""
PEER_FIRST_SECONDS = 1.0
"""Time that a client has to close its socket after connection.close-ok (RabbitMQ: 30 s)."""
DRAIN_SECONDS_MAX = 10.0
"""Seconds that a peer may take to read its unsent octets while its socket is closing."""


class ClientTimeouts:
    """The timer of one connection: each of its methods but the last restarts it.

    Args:
        limits: Limits of the server; those of a login are there, so that tests can shorten them.
    """

    __slots__ = ("_limits", "_timer")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None

    def wait_for_login(self, end: Callable[[str], None]) -> None:
        """Wait `Limits.handshake_seconds_max` for the client to open a virtual host."""
        self._start(self._limits.handshake_seconds_max, end, "handshake timeout")

    def delay_refusal(self, end: Callable[[], None]) -> None:
        """Wait `Limits.refused_login_seconds`, to slow down password guessing."""
        self._start(self._limits.refused_login_seconds, end)

    def wait_for_close_ok(self, end: Callable[[], None]) -> None:
        """Wait `CLOSE_SECONDS_MAX` for the answer to connection.close."""
        self._start(CLOSE_SECONDS_MAX, end)

    def wait_for_peer_to_close(self, end: Callable[[], None]) -> None:
        """Wait `PEER_FIRST_SECONDS` for the client to close its socket first."""
        self._start(PEER_FIRST_SECONDS, end)

    def wait_for_draining(self, end: Callable[[str], None]) -> None:
        """Wait `DRAIN_SECONDS_MAX` for the client to read what is unsent."""
        self._start(DRAIN_SECONDS_MAX, end, "does not read")

    def linger(self, end: Callable[[], None]) -> None:
        """Wait `Limits.linger_seconds_max` for the peer to close its side; everything is sent."""
        self._start(self._limits.linger_seconds_max, end)

    def stop(self) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, seconds: float, end: Callable[..., None], *reason: str) -> None:
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(seconds, end, *reason)
