"""Decides when the messages of a queue wait for others, to share one write.

A write costs the broker the same whether it holds two messages or two hundred. A busy broker
therefore lets messages gather: as in a database's group commit, but for as long as the queue grows
and publishers send, instead of a fixed time. An idle broker writes at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.storing.store_settings import StoreSettings

GROWTH_SECONDS_MAX: Final = 0.003
"""Longest time without a new message after which a queue writes what it has."""


class Arrivals:
    """Counts what is published into the journaled queues of one server.

    Attributes:
        count: Grows with each append of messages.
    """

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class GroupCommit:
    """Decides when one store writes. The event loop owns it.

    Args:
        settings: Bounds of the wait.
        arrivals: Of the server; only `note_arrival` changes them.
        now_seconds: Clock of the waits; it never goes back.
    """

    __slots__ = (
        "_arrivals",
        "_end_offset",
        "_grown_seconds",
        "_now_seconds",
        "_seen_count",
        "_settings",
        "_since_seconds",
        "_written_count",
    )

    def __init__(
        self,
        settings: StoreSettings,
        arrivals: Arrivals,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._arrivals = arrivals
        self._now_seconds = now_seconds
        self._seen_count = 0
        self._written_count = 0
        self._end_offset = 0
        # When the messages began to wait, 0 before they do, and when the last of them came.
        self._since_seconds = 0.0
        self._grown_seconds = 0.0

    def note_arrival(self) -> None:
        """Count messages that the store has just appended."""
        self._arrivals.count += 1

    def begin(self, messages: int) -> None:
        """Note that a write of `messages` messages begins: the next ones wait anew."""
        self._written_count = messages
        self._since_seconds = 0.0

    def is_worth_waiting(self, start: int, end: int, message_bytes: float) -> bool:
        """Return whether the messages of `[start, end)` should wait; asked once in each turn.

        They wait while all of this holds: the last write held several messages; something was
        published since the last turn; the queue itself has grown lately; they are less than
        `flush_bytes`; and they have not waited for `flush_interval_seconds`.

        Args:
            start: End of what is written.
            end: End of what could be written now, above `start`.
            message_bytes: Mean size of a message.
        """
        seen_count, self._seen_count = self._seen_count, self._arrivals.count
        if self._written_count <= 1 or seen_count == self._seen_count:
            return False
        now_seconds = self._now_seconds()
        if not self._since_seconds:
            self._since_seconds = now_seconds
        if end != self._end_offset:
            self._end_offset = end
            self._grown_seconds = now_seconds
        return (
            now_seconds - self._since_seconds < self._settings.flush_interval_seconds
            and now_seconds - self._grown_seconds < GROWTH_SECONDS_MAX
            and (end - start) * message_bytes < self._settings.flush_bytes
        )
