"""Decides when the messages of a queue wait for others, to share one write.

A write costs the broker the same whether it holds two messages or two hundred. A busy broker
therefore lets messages gather: as in a database's group commit, but for as long as the queue grows
and publishers send, instead of a fixed time. An idle broker writes at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

from amqp_server.broker.turn import TaskQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.storing.storage_settings import StoreSettings
    from amqp_server.broker.turn import Turn

GROWTH_SECONDS_MAX: Final = 0.003
"""Longest time without a new message after which a queue writes what it has."""
STEP_STORES: Final = 256
"""Waiting stores that are looked at between two looks at the time."""


class GroupCommit:
    """Decides when one store writes. The event loop owns it.

    Args:
        settings: Bounds of the wait.
        now_seconds: Clock of the waits; it never goes back.

    Attributes:
        gathers: Whether the last write had several messages, so that the next ones may wait.
    """

    __slots__ = (
        "_end_offset",
        "_grown_seconds",
        "_now_seconds",
        "_settings",
        "_since_seconds",
        "gathers",
    )

    def __init__(
        self, settings: StoreSettings, now_seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._now_seconds = now_seconds
        self.gathers = False
        self._end_offset = 0
        # When the messages began to wait, 0 before they do, and when the last of them came.
        self._since_seconds = 0.0
        self._grown_seconds = 0.0

    def begin(self, messages: int) -> None:
        """Note that a write of `messages` messages begins: the next ones wait again."""
        self.gathers = messages > 1
        self._since_seconds = 0.0

    def end_wait(self) -> None:
        """Let the next write wait for nothing."""
        self.gathers = False

    def is_worth_waiting(self, start: int, end: int, message_bytes: float) -> bool:
        """Return whether the messages of `[start, end)` should wait while publishers send.

        They should while all of this holds: the last write had several messages; the queue has
        grown lately; they are less than `flush_bytes`; and they have not waited for
        `flush_interval_seconds`.

        Args:
            start: End of what is written.
            end: End of what could be written now, above `start`.
            message_bytes: Mean size of a message.
        """
        if not self.gathers:
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


class WaitingStore(Protocol):
    """A store whose messages wait for others."""

    @property
    def is_worth_waiting(self) -> bool:
        """Whether they should wait on while publishers send."""

    def wake_for_write(self) -> None:
        """Let the queue write in the task queue of the client that published."""


class WaitingWrites:
    """The stores whose messages wait for others. A task in a task queue of its own.

    It looks at all of them in each turn, which costs less than a turn of each queue.

    Args:
        turn: Turn that runs it.

    Attributes:
        arrival_count: Appends of messages to any store of a journaled queue; the stores count them.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._task_queue = TaskQueue()
        # A dict keeps the order.
        self._stores: dict[WaitingStore, None] = {}
        self.arrival_count = 0
        self._seen_count = 0

    def add(self, store: WaitingStore) -> None:
        """Let the messages of a store wait until a turn in which nothing was published."""
        if not self._stores:
            self._seen_count = self.arrival_count
        if store not in self._stores:
            self._stores[store] = None
            self._turn.mark(self, self._task_queue)

    def run_turn(self) -> None:
        """Wake the queues that need not wait any more."""
        is_flowing = self._seen_count != self.arrival_count
        self._seen_count = self.arrival_count
        stores = tuple(self._stores)
        for at, store in enumerate(stores, 1):
            if not is_flowing or not store.is_worth_waiting:
                del self._stores[store]
                store.wake_for_write()
            if at % STEP_STORES == 0 and self._turn.time_slice.is_over:
                # The others come first in the next turn.
                for each in stores[:at]:
                    if each in self._stores:
                        del self._stores[each]
                        self._stores[each] = None
                break
        if self._stores:
            self._turn.mark(self, self._task_queue)
