"""One more reader of a store, at a place of its own: it takes nothing away."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.storing.message_store import MessageStore


class StoreReader:
    """Reads messages by offset, from the ring or from the log behind it. The event loop owns it.

    What is read from the log is read once for all readers of the store that come by: see
    `shared_windows`. A read that fails is told in the server's log and repeated after a pause.

    Args:
        store: What it reads.
        arrived: Called on the loop when what was not at hand is, or may be asked for again.
        lost: Called on the loop, perhaps within `read_run`, with the offsets `[start, end)` that
            the store does not have, when the first of them is asked for; `arrived` follows.
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
        self._is_closed = False

    def read_run(self, start: int, end: int) -> Messages:
        """Return the messages from `start` on that are at hand, at most up to `end`.

        An empty list means that they are being read from the log: `arrived` comes later.
        """
        ring = self._store.ring
        if start >= ring.window_start:
            return self._store.read_memory(start, end)
        window = self._windows.at(start)
        if window is None:
            if start < self._store.log.log_end_offset:
                self._windows.ask(start, self)
            else:
                # Settled in memory, and never written.
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
        """Wait for nothing; nothing is told any more."""
        self._is_closed = True
        self._windows.forget(self)

    def window_arrived(self) -> None:
        """Let its owner ask again for what it waits for."""
        if not self._is_closed:
            self._arrived()

    def _lose(self, start: int, end: int) -> None:
        if not self._is_closed:
            self._lost(start, end)
            self._arrived()
