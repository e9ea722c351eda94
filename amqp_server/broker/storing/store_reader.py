"""One more reader of a store, at a place of its own: it takes nothing away."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.storing.message_run import Messages
    from amqp_server.broker.storing.message_store import MessageStore
    from appendlog import ReadResult

logger = logging.getLogger(__name__)


class StoreReader:
    """Reads messages by offset, from the ring or from the log behind it. The event loop owns it.

    Args:
        store: What it reads.
        arrived: Called on the loop when what was not at hand is, or may be asked for again.
        lost: Called on the loop with the offsets `[start, end)` that the store does not have.
    """

    def __init__(
        self,
        store: MessageStore,
        arrived: Callable[[], None],
        lost: Callable[[int, int], None],
    ) -> None:
        """Begin with nothing at hand."""
        self._store = store
        self._arrived = arrived
        self._lost = lost
        self._cold = store.cold_reads()
        self._is_closed = False

    def read_run(self, start: int, end: int) -> Messages:
        """Return the messages from `start` on that are at hand, at most up to `end`.

        An empty list means that they are being read from the log: `arrived` comes later.
        """
        ring = self._store.ring
        if start >= ring.window_start:
            self._cold.clear()
            return ring.read(start, min(end, ring.cursor))
        run = self._cold.get(start, min(end, ring.window_start))
        if run is None:
            self._cold.begin(start, self._read)
            return []
        self._cold.begin_ahead(ring.window_start, self._go_on)
        return run

    def close(self) -> None:
        """Let go of everything; nothing is told any more."""
        self._is_closed = True
        self._cold.close()

    def _read(self, start: int, result: ReadResult | Exception) -> None:
        if self._is_closed:
            return
        if isinstance(result, Exception):
            # The messages stay where they are: the read is repeated in the next turn.
            path = self._store.log.directory
            logger.error("read failed path=%s offset=%d error=%s", path, start, result)
        else:
            # Without a part the log has nothing from here on: what is left is in the ring.
            behind = max(result.next_offset, self._store.ring.window_start)
            first = result.parts[0].offsets[0] if result.parts else behind
            if first > start:
                self._lost(start, first)
        self._arrived()

    def _go_on(self) -> None:
        if not self._is_closed:
            self._arrived()
