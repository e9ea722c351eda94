"""Makes rings release memory, the fullest first, in steps and in a task queue of their own."""

from __future__ import annotations

from heapq import heapify, heappop
from typing import TYPE_CHECKING, Final

from amqp_server.broker.turn import TaskQueue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from amqp_server.broker.storing.message_store import MessageStore
    from amqp_server.broker.turn import Turn
    from appendlog import Log
    from ring import PagePool

STEP_STORES: Final = 256
"""Stores that one step of the search for full rings looks at."""


class MemoryRelief:
    """Makes rings release what their logs have, and write to their logs what these do not have.

    Its time is that of no client: the client that publishes when the rings are full is rarely the
    one that has filled them. Each write is paid for by the client that has published the messages.

    Args:
        turn: Turn that runs it.
        pool: Pool of all rings.
        stores: All stores; the caller adds and removes some at any time.
    """

    def __init__(self, turn: Turn, pool: PagePool, stores: Mapping[Log, MessageStore]) -> None:
        self._turn = turn
        self._pool = pool
        self._stores = stores
        self._task_queue = TaskQueue()
        self._enough_bytes = 0
        self._steps: Iterator[None] | None = None

    def start(self, enough_bytes: int) -> None:
        """Begin in the next turn, or go on with what has begun.

        Args:
            enough_bytes: Bytes that the rings together may keep; 0 releases all that can be.
        """
        if self._steps is None:
            self._enough_bytes = enough_bytes
            self._steps = self._relieve()
            self._turn.mark(self, self._task_queue)
        else:
            self._enough_bytes = min(self._enough_bytes, enough_bytes)

    def run_turn(self) -> None:
        """Relieve rings until the slice is over."""
        steps = self._steps
        if steps is None:
            return
        try:
            for _ in steps:
                if self._turn.time_slice.is_over:
                    self._turn.mark(self, self._task_queue)
                    return
        except Exception:
            # The next publish above the limit begins again.
            self._steps = None
            raise
        self._steps = None

    def _relieve(self) -> Iterator[None]:
        # The numbers decide between rings that are equally full: stores have no order.
        fullest: list[tuple[int, int, MessageStore]] = []
        # What leaves memory soon: to write more would only keep the disk busy.
        leaving: dict[MessageStore, None] = {}
        leaving_bytes = 0
        for number, store in enumerate(tuple(self._stores.values())):
            if number % STEP_STORES == STEP_STORES - 1:
                yield
            if store.ring.held_bytes:
                fullest.append((-store.ring.held_bytes, number, store))
                if store.leaving_bytes:
                    leaving[store] = None
                    leaving_bytes += store.leaving_bytes
        heapify(fullest)
        while fullest:
            if self._is_enough(leaving_bytes):
                # Some of these bytes may have left already: what they count must be known now.
                counted, leaving, leaving_bytes = leaving, {}, 0
                for number, store in enumerate(counted):
                    if number % STEP_STORES == STEP_STORES - 1:
                        yield
                    if store.leaving_bytes:
                        leaving[store] = None
                        leaving_bytes += store.leaving_bytes
                if self._is_enough(leaving_bytes):
                    return
            _, _, store = heappop(fullest)
            leaving_bytes -= store.leaving_bytes
            # Between two steps the ring may have become empty, or its queue may be deleted.
            while store.ring.held_bytes and store.release_memory():
                yield
            leaving[store] = None
            leaving_bytes += store.leaving_bytes
            yield

    def _is_enough(self, leaving_bytes: int) -> bool:
        """Return whether the rings hold little enough without `leaving_bytes`; 0 never is."""
        return 0 < self._enough_bytes >= self._pool.held_bytes - leaving_bytes
