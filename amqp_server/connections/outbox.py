"""Outbox: octets of one connection on their way to the transport.

Octets go straight there. Only the frames of a large message are handed over a part at a time, in
turns of the event loop, and what is sent after them waits behind them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from amqp_server.protocol.large_delivery import LargeFrames

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from amqp_server.protocol.large_delivery import Octets

PART_BYTES: Final = 1024 * 1024
"""Octets that are handed over in one turn: 1 ms at most, with the smallest frames."""


class Outbox:
    """The octets that one connection sends. The event loop owns it.

    Args:
        transport: Transport of the connection.
        call_soon: Method of the event loop.
        full_bytes: Unsent bytes above which the transport calls `pause_writing` of its protocol,
            and later `resume_writing`.
        on_empty: Called when nothing waits here any more; not when nothing had to wait.

    Attributes:
        waiting_bytes: Bytes that the transport has not got yet.
    """

    __slots__ = (
        "_call_soon",
        "_full_bytes",
        "_is_scheduled",
        "_on_empty",
        "_transport",
        "_waiting",
        "waiting_bytes",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        call_soon: Callable[[Callable[[], None]], object],
        full_bytes: int,
        on_empty: Callable[[], None],
    ) -> None:
        self.waiting_bytes = 0
        self._transport = transport
        self._call_soon = call_soon
        self._full_bytes = full_bytes
        self._on_empty = on_empty
        self._waiting: deque[Octets] = deque()
        self._is_scheduled = False

    def write(self, octets: Octets) -> None:
        """Send octets, behind those that wait; the caller must not change them afterwards.

        Of the frames of a large message a first part is handed over at once.
        """
        is_first = not self.waiting_bytes
        if is_first and not isinstance(octets, LargeFrames):
            self._transport.write(octets)
            return
        self._waiting.append(octets)
        self.waiting_bytes += len(octets)
        if is_first:
            self._hand_over()
            self._go_on_later()

    def go_on(self) -> None:
        """Hand over another part, because the transport has room again."""
        if self.waiting_bytes and not self._is_scheduled:
            self._run()

    def clear(self) -> None:
        """Drop what waits: the connection is lost."""
        self._waiting.clear()
        self.waiting_bytes = 0

    def _run(self) -> None:
        self._is_scheduled = False
        if not self.waiting_bytes or self._transport.is_closing():
            return
        self._hand_over()
        self._go_on_later()
        if not self.waiting_bytes:
            self._on_empty()

    def _go_on_later(self) -> None:
        """Go on in the next turn of the loop, or when the transport has room."""
        is_full = self._transport.get_write_buffer_size() > self._full_bytes
        if self.waiting_bytes and not is_full and not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _hand_over(self) -> None:
        left_bytes = PART_BYTES
        while self._waiting and left_bytes > 0:
            octets = self._waiting[0]
            if isinstance(octets, LargeFrames):
                pieces = octets.take(left_bytes)
                count = sum(map(len, pieces))
                # `writelines` of asyncio in Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 does not
                # notice that the transport is full: it would never report that it has room again.
                last = pieces.pop()
                if pieces:
                    self._transport.writelines(pieces)
                self._transport.write(last)
                is_done = not len(octets)
            else:
                count = len(octets)
                self._transport.write(octets)
                is_done = True
            if is_done:
                self._waiting.popleft()
            left_bytes -= count
            self.waiting_bytes -= count
