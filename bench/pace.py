"""Publishes at a fixed rate, and how late they and their confirms were."""

import select
import time
from collections import deque

from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.publish_block import PublishBlock
from bench.worker import Counters


class Pace:
    """Sends a block a tick, and reads the confirms between two ticks.

    Each message is stamped with the moment when it was due, not when it was sent: a publisher held
    up by the broker must not hide the delay (coordinated omission).

    Attributes:
        late_ns_max: How late the latest write was.
        confirm_latencies_ns: For each block, from when it was due to the answer to all of it.
    """

    def __init__(
        self, connection: Connection, block: PublishBlock, window: ConfirmWindow | None
    ) -> None:
        """Send nothing yet.

        Args:
            connection: Where to send; its channel confirms when there is a window.
            block: What to send, one a tick.
            window: Counts the confirms; None when there are none.
        """
        self.late_ns_max = 0
        self.confirm_latencies_ns: list[int] = []
        self._connection = connection
        self._block = block
        self._window = window
        self._unanswered_due_ns: deque[int] = deque()

    def publish(self, count: int, rate_per_second: int, counters: Counters) -> None:
        """Send whole blocks, and wait until all are confirmed.

        Args:
            count: Messages to send; rounded up to whole blocks.
            rate_per_second: Messages a second.
            counters: Told how many are sent.

        Raises:
            BenchError: The broker read or sent nothing for STALL_SECONDS_MAX, or sent something
                else than confirms.
        """
        block_messages = self._block.block_messages
        blocks = -(-count // block_messages)
        tick_ns = block_messages * 1_000_000_000 // rate_per_second
        start_ns = time.monotonic_ns() + tick_ns
        for number in range(blocks):
            due_ns = start_ns + number * tick_ns
            self._wait_until(due_ns)
            self._unanswered_due_ns.append(due_ns)
            self._connection.send(self._block.encode(number, due_ns))
            counters.published.value = (number + 1) * block_messages
            self.late_ns_max = max(self.late_ns_max, time.monotonic_ns() - due_ns)
        if self._window:
            while self._window.settled < blocks * block_messages:
                self._read_confirms(self._window)

    def _wait_until(self, due_ns: int) -> None:
        while (wait_ns := due_ns - time.monotonic_ns()) > 0:
            if not self._window:
                time.sleep(wait_ns / 1e9)
            elif select.select([self._connection.socket], [], [], wait_ns / 1e9)[0]:
                self._read_confirms(self._window)

    def _read_confirms(self, window: ConfirmWindow) -> None:
        window.feed(self._connection.receive())
        now_ns = time.monotonic_ns()
        # A block is answered when as many messages are: confirms come in order, or nearly so.
        answered = window.settled // self._block.block_messages
        while len(self.confirm_latencies_ns) < answered:
            self.confirm_latencies_ns.append(now_ns - self._unanswered_due_ns.popleft())
