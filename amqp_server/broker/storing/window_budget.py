"""Memory limit for the windows of all logs; releases windows that are too old to be used."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from amqp_server.broker.storing.log_window import WINDOW_SECONDS

if TYPE_CHECKING:
    from amqp_server.broker.turn import Turn

HELD_BYTES_MAX = 64 * 1024 * 1024
"""Memory for all windows of a server; the least recently used are read again when needed."""


class Holder(Protocol):
    """Something that holds windows."""

    @property
    def read_at_seconds(self) -> float:
        """Time at which the last window arrived, by the monotonic clock."""

    def clear(self) -> None:
        """Release the windows, and record that."""


class WindowBudget:
    """Windows of all readers of a server, the most recently used last.

    Args:
        bytes_max: Most bytes; above it the least recently used windows are released.
        turn: Turn that schedules the release of old windows; None never releases them by age.
    """

    def __init__(self, bytes_max: int = HELD_BYTES_MAX, turn: Turn | None = None) -> None:
        self.held_bytes = 0
        self._bytes_max = bytes_max
        self._turn = turn
        self._is_timed = False
        self._holders: OrderedDict[Holder, int] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of holders that have windows."""
        return len(self._holders)

    @property
    def has_room_ahead(self) -> bool:
        """Whether there is room for windows that no reader waits for yet."""
        return self.held_bytes < self._bytes_max // 2

    def record(self, holder: Holder, held_bytes: int) -> None:
        """Record how many bytes a holder has now, and that it was used last."""
        self.held_bytes += held_bytes - self._holders.pop(holder, 0)
        if held_bytes:
            self._holders[holder] = held_bytes
            if not self._is_timed and self._turn is not None:
                self._is_timed = True
                self._turn.mark_after_real(WINDOW_SECONDS, self)
        while self.held_bytes > self._bytes_max and len(self._holders) > 1:
            next(iter(self._holders)).clear()

    def use(self, holder: Holder) -> None:
        """Record that a holder was used last, with unchanged size."""
        self._holders.move_to_end(holder)

    def run_turn(self) -> None:
        """Release old windows, because a removed file leaves the disk with its last window."""
        self._is_timed = False
        oldest_seconds = time.monotonic() - WINDOW_SECONDS
        for holder in list(self._holders):
            if holder.read_at_seconds < oldest_seconds:
                holder.clear()
        if self._holders and self._turn is not None:
            self._is_timed = True
            self._turn.mark_after_real(WINDOW_SECONDS, self)
