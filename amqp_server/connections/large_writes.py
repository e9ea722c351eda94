"""Shares the loop among the connections that send large messages.

A socket takes a megabyte at once, which costs the loop half a millisecond. Twenty clients that are
sent one message in the same turn would cost it ten, before it reads again.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("amqp_server.large_writes")

TURN_BYTES: Final = 1024 * 1024
"""Octets that all connections hand over in one turn: 1 ms at most, with the smallest frames."""
SHARE_BYTES_MIN: Final = 64 * 1024
"""Octets that a connection hands over at least: with less, what a turn itself costs would count."""


class LargeWriter(Protocol):
    """A connection that has octets of a large message left."""

    def hand_over_some(self, bytes_max: int) -> int:
        """Hand over about `bytes_max` octets at most; return how many.

        It calls `LargeWrites.add` again if it can go on.
        """


class LargeWrites:
    """The connections that wait to hand over a part of a large message, first in, first out.

    Args:
        call_soon: Method of the event loop.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[LargeWriter] = deque()
        self._left_bytes = TURN_BYTES
        self._is_scheduled = False

    @property
    def room_bytes(self) -> int:
        """Octets that one more connection may hand over in this turn; 0 if others wait."""
        return 0 if self._waiting else max(self._left_bytes, 0)

    def use(self, octets: int) -> None:
        """Count octets that a connection has handed over in this turn."""
        self._left_bytes -= octets
        self._schedule()

    def add(self, writer: LargeWriter) -> None:
        """Call `writer.hand_over_some` once, in one of the next turns."""
        self._waiting.append(writer)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._left_bytes = TURN_BYTES
        while self._waiting and self._left_bytes > 0:
            share_bytes = max(TURN_BYTES // len(self._waiting), SHARE_BYTES_MIN)
            writer = self._waiting.popleft()
            try:
                self._left_bytes -= writer.hand_over_some(min(share_bytes, self._left_bytes))
            except Exception:
                # An error of one connection must not keep the others from sending.
                logger.exception("large write failed writer=%r", writer)
        if self._left_bytes < TURN_BYTES or self._waiting:
            self._schedule()
