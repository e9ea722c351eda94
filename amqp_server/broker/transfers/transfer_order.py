"""Order of transfers: next is the queue that has used least of the transfers' time.

All transfers of the server together get the time of one client. Within it each source queue has a
clock, as each client has one in the turn: so a few dead letters do not wait for those of hundreds
of queues between which messages circulate. What a queue has begun to send goes first: copies that
are half made are memory, and there would be one for each queue.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.broker.turn import Turn


class Sender(Protocol):
    """The forwarder of one queue.

    Attributes:
        clock_seconds: Time that it has used, raised to that of the sender that ran last when it
            did not wait. Only the order changes it.
    """

    clock_seconds: float

    @property
    def is_sending(self) -> bool:
        """Whether it has begun to send something, and the slice was over."""

    def send_some(self) -> None:
        """Forward messages until the turn's slice is over; ask again if there are more."""


class TransferOrder:
    """The senders that wait. A task of the line `Turn.transfers`.

    Args:
        turn: Turn that runs it; its stopwatch measures the senders.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._clock_seconds = 0.0
        self._entries = count()
        # (clock, order of entry, sender): the order decides between equal clocks.
        self._waiting: list[tuple[float, int, Sender]] = []
        self._is_waiting: set[Sender] = set()
        # The sender that runs now, and whether it has more to send.
        self._running: Sender | None = None
        self._asks_again = False
        # The sender that goes on before all others.
        self._begun: Sender | None = None

    def ask(self, sender: Sender) -> None:
        """Let `sender` send in this turn, if there is time left, or in a later one."""
        if sender is self._running:
            # Its clock does not have the time of this slice yet.
            self._asks_again = True
            return
        if sender not in self._is_waiting:
            self._is_waiting.add(sender)
            sender.clock_seconds = max(sender.clock_seconds, self._clock_seconds)
            heappush(self._waiting, (sender.clock_seconds, next(self._entries), sender))
        self._turn.mark_now(self, self._turn.transfers)

    def run_turn(self) -> None:
        """Let senders send until the slice is over, one at least."""
        time_slice = self._turn.time_slice
        try:
            while self._waiting or self._begun is not None:
                self._run_next()
                if time_slice.is_over:
                    return
        finally:
            # Also after an error of one sender: the others must go on.
            if self._waiting or self._begun is not None:
                self._turn.mark(self, self._turn.transfers)

    def _run_next(self) -> None:
        sender, self._begun = self._begun, None
        if sender is None:
            _, _, sender = heappop(self._waiting)
            self._is_waiting.discard(sender)
            self._clock_seconds = sender.clock_seconds
        self._running, self._asks_again = sender, False
        began_seconds = self._turn.stopwatch()
        try:
            sender.send_some()
        finally:
            sender.clock_seconds += self._turn.stopwatch() - began_seconds
            self._running = None
            if self._asks_again and sender.is_sending:
                self._begun = sender
            elif self._asks_again:
                self.ask(sender)
