"""Publishes at a fixed rate; measures the delay of the publishes and the latency of confirms."""

import select
import time
from collections import deque
from typing import Protocol

from bench.confirm_window import ConfirmWindow
from bench.connection import Connection
from bench.worker import Counters


class Blocks(Protocol):
    """Publishes that are sent block by block, as those of `PublishBlock`."""

    @property
    def block_messages(self) -> int:
        """Publishes in a block."""

    def encode(self, block: int, stamp_ns: int) -> bytes:
        """Encode one block, complete for a write.

        Args:
            block: Number of the block, from 0.
            stamp_ns: Stamp of all messages of the block, ns of CLOCK_MONOTONIC.
        """


class Pace:
    """Sends a block a tick, and reads the confirms between two ticks.

    The stamp of a message is the moment when it was due, not the moment when it was sent. A broker
    that delays the publisher therefore cannot hide the delay (coordinated omission).

    Args:
        connection: Connection to send on; its channel has confirms if there is a window.
        block: Publishes of each tick.
        window: Counts the confirms; None for no confirms.

    Attributes:
        late_ns_max: Longest delay of a write.
        confirm_latencies_ns: For each block, time from when it was due to the answer to all of it.
    """

    def __init__(self, connection: Connection, block: Blocks, window: ConfirmWindow | None) -> None:
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
            counters: Get the number of messages sent.

        Raises:
            BenchError: The broker read or sent nothing for STALL_SECONDS_MAX, or sent another
                method than a confirm.
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
        # Confirms come nearly in order, so the number of answered messages gives the number of
        # answered blocks.
        answered = window.settled // self._block.block_messages
        while len(self.confirm_latencies_ns) < answered:
            self.confirm_latencies_ns.append(now_ns - self._unanswered_due_ns.popleft())
