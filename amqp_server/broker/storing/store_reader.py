"""A reader of a store with its own position, which takes nothing from the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.storing.message_store import MessageStore


class StoreReader:
    """Reads messages by offset, from the ring or from the log behind it. The event loop owns it.

    All readers of the store share what is read from the log: see `shared_windows`. A failed read
    is logged and repeated after a pause.

    Args:
        store: Store to read from.
        arrived: Called on the loop when missing messages have arrived, or may be asked for again.
        lost: Called on the loop, perhaps within `read_run`, with offsets `[start, end)` that the
            store does not have, when the reader asks for the first; `arrived` follows.
    """

    def __init__(
        self,
        store: MessageStore,
        arrived: Callable[[], None],
        lost: Callable[[int, int], None],
    ) -> None:
        self._store = store
        self._arrived = arrived
        self._lost = lost
        self._windows = store.windows.shared

    def read_run(self, start: int, end: int) -> Messages:
        """Return messages from `start` on that are in memory, at most up to `end`.

        An empty list means that a worker reads them from the log; it calls `arrived` later.
        """
        ring = self._store.ring
        if start >= ring.window_start:
            return self._store.read_memory(start, end)
        window = self._windows.at(start)
        if window is None:
            if start < self._store.log.log_end_offset:
                self._windows.ask(start, self)
            else:
                # The messages were settled in memory and never written.
                self._lose(start, ring.window_start)
            return []
        run = window.find(start, min(end, ring.window_start))
        if run is None:
            self._lose(start, min(window.first_from(start), ring.window_start))
            return []
        if start - window.start > window.end - start and window.end < ring.window_start:
            self._windows.ask_ahead(window.end)
        return run

    def close(self) -> None:
        """Stop waiting; `arrived` and `lost` are not called any more."""
        # Methods of the owner: without this, only the garbage collector would free both.
        self._arrived = _ignore
        self._lost = _ignore
        self._windows.forget(self)

    def window_arrived(self) -> None:
        """Let the owner ask again for the messages that it waits for."""
        self._arrived()

    def _lose(self, start: int, end: int) -> None:
        self._lost(start, end)
        self._arrived()


def _ignore(*_: int) -> None:
    """Do nothing: the reader is closed."""
