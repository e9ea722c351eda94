"""Outbox: octets of one connection on their way to the transport.

A write to a socket costs more than all that comes before it for a small message. So the first
octets of a turn go straight to the transport, and those that follow in the same turn are held and
go together when it ends. Only the frames of a large message are handed over a part at a time, in
turns of the event loop, and what is sent after them waits behind them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from amqp_server.protocol.large_delivery import LargeFrames

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from amqp_server.broker.turn import Turn
    from amqp_server.connections.large_writes import LargeWrites
    from amqp_server.protocol.large_delivery import Octets


HELD_BYTES_MAX: Final = 64 * 1024
"""Octets that are held at most: as many as a socket takes without much more cost for one write."""


class Outbox:
    """The octets that one connection sends. The event loop owns it.

    Args:
        transport: Transport of the connection.
        turn: Turn at whose end goes what is held.
        large_writes: Decides when a connection hands over parts of large messages.
        full_bytes: Unsent bytes above which the transport calls `pause_writing` of its protocol,
            and later `resume_writing`.
        on_empty: Called when nothing waits here any more; not when nothing had to wait.

    Attributes:
        waiting_bytes: Bytes that the transport has not got yet.
    """

    __slots__ = (
        "_full_bytes",
        "_held",
        "_held_bytes",
        "_is_noted",
        "_is_queued",
        "_large_writes",
        "_on_empty",
        "_transport",
        "_turn",
        "_waiting",
        "_written_in",
        "waiting_bytes",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        turn: Turn,
        large_writes: LargeWrites,
        full_bytes: int,
        on_empty: Callable[[], None],
    ) -> None:
        self.waiting_bytes = 0
        self._transport = transport
        self._large_writes = large_writes
        self._full_bytes = full_bytes
        self._on_empty = on_empty
        self._waiting: deque[Octets] = deque()
        self._is_queued = False
        self._turn = turn
        # Number of the turn in which the last octets went straight to the transport.
        self._written_in = 0
        self._held: list[bytes | bytearray] = []
        self._held_bytes = 0
        self._is_noted = False

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the transport has not got yet, with those that are held until a turn ends."""
        return self.waiting_bytes + self._held_bytes

    def write(self, octets: Octets) -> None:
        """Send octets, behind those that wait; the caller must not change them afterwards.

        Of the frames of a large message a first part is handed over at once, if nothing waits
        here, and no other connection for its next part.
        """
        is_first = not self.waiting_bytes
        if is_first and not isinstance(octets, LargeFrames):
            work = self._turn.work
            if work and work == self._written_in:
                self._hold(octets)
            else:
                if self._held:
                    # A turn within a turn, or one that was left early.
                    self.flush()
                self._written_in = work
                self._transport.write(octets)
            return
        self.flush()
        self._waiting.append(octets)
        self.waiting_bytes += len(octets)
        if is_first:
            self._hand_over_now()

    def flush(self) -> None:
        """Send what is held, now; also before anything else is asked of the transport."""
        if self._held:
            held, self._held, self._held_bytes = self._held, [], 0
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))

    def let_go(self) -> None:
        """Send what is held: the turn ends."""
        self._is_noted = False
        self.flush()

    def go_on(self) -> None:
        """Hand over another part, because the transport has room again."""
        if self.waiting_bytes and not self._is_queued and not self._transport.is_closing():
            self._hand_over_now()
            if not self.waiting_bytes:
                self._on_empty()

    def clear(self) -> None:
        """Drop what waits: the connection is lost."""
        self._waiting.clear()
        self._held.clear()
        self._held_bytes = 0
        self.waiting_bytes = 0

    def hand_over_some(self, bytes_max: int) -> int:
        """Hand over about `bytes_max` octets at most, of what waits; return how many."""
        self._is_queued = False
        if not self.waiting_bytes or self._transport.is_closing():
            return 0
        count = self._hand_over(bytes_max)
        self._wait_for_turn()
        if not self.waiting_bytes:
            self._on_empty()
        return count

    def _hold(self, octets: bytes | bytearray) -> None:
        if not self._is_noted:
            self._is_noted = True
            self._turn.holders.append(self)
        self._held.append(octets)
        self._held_bytes += len(octets)
        if self._held_bytes >= HELD_BYTES_MAX:
            self.flush()

    def _hand_over_now(self) -> None:
        """Hand over as much as this turn has room for."""
        room_bytes = self._large_writes.room_bytes
        if room_bytes:
            self._large_writes.use(self._hand_over(room_bytes))
        self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        """Go on in another turn; if the transport is full, after it has said that it has room."""
        is_full = self._transport.get_write_buffer_size() > self._full_bytes
        if self.waiting_bytes and not is_full and not self._is_queued:
            self._is_queued = True
            self._large_writes.add(self)

    def _hand_over(self, bytes_max: int) -> int:
        left_bytes = bytes_max
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
        return bytes_max - left_bytes
