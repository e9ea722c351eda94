"""Input of a session that is not handled yet: octets first, then events.

Octets are scanned in parts, and the next part only when all events of the part before are handled.
The socket is read only while nothing waits. So `is_scanned` and `is_paused` mean together:

    is_scanned, not is_paused       the socket is read; nothing waits
    is_scanned, is_paused           events wait for their turn, a commit, an answer or a reply
    not is_scanned, is_paused       octets wait behind them
    not is_scanned, not is_paused   what was read is about to be scanned

A client that does not read its replies is not read for that reason already: then events and octets
may wait although `is_paused` is False.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from amqp_server.connections.parked_publishes import cost_bytes
from amqp_server.protocol import framing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.connections.client_socket import ClientSocket
    from amqp_server.protocol.framing import Event

SCANNED_BYTES_MAX: Final = 256 * 1024 if framing.COMPILED else 16 * 1024
"""Octets that are scanned at once: about 1.3 ms for the smallest frames of a read.

With the compiled kernel that is one whole read, and the frame that the read before it began.
"""
WAITING: Final = "waiting"
"""Reason not to read: what the client has sent is not handled yet."""


class SessionInput:
    """The octets and events of one client that wait to be handled.

    Args:
        connection: Connection whose reading it pauses; keeps the octets that wait as its `rest`.
        frame_max: Largest frame that is accepted, in octets.
        body_bytes_max: Largest body that the client may send in one frame, in bytes.

    Attributes:
        scanner: Makes events of octets.
        events: Events that are not handled yet, in order.
        event_bytes: About how many octets the events came from: the last scan's, and those of
            parked events.
        is_scanned: Whether no octets wait but those of a frame, or a publish, that is incomplete.
        is_paused: Whether the client is not read, because what it has sent is not handled yet.
        buffer: Octets that the session reads now; None when it has read them.
        at: Position in it of what is not scanned yet.
    """

    def __init__(self, connection: ClientSocket, frame_max: int, body_bytes_max: int) -> None:
        self.scanner = framing.FrameScanner(frame_max, body_bytes_max)
        self.events: deque[Event] = deque()
        self.event_bytes = 0
        self.is_scanned = True
        self.is_paused = False
        self._connection = connection
        # Octets that were read and are not scanned yet: a part of the read buffer while it is
        # handled, and of the connection's `rest` afterwards.
        self.buffer: bytearray | None = None
        self.at = 0
        self._end = 0

    def begin(self, buffer: bytearray, at: int, end: int) -> None:
        """Take what was read; the caller drops `buffer` before the server uses it again."""
        self.buffer, self.at, self._end = buffer, at, end
        self.is_scanned = False

    def scan_some(self) -> None:
        """Scan the next part of what was read, at least one whole frame if there is one.

        What the turn has no time for becomes the connection's `rest`, which is scanned later.
        """
        octets: bytes | bytearray | None = self.buffer
        at, end = self.at, self._end
        if octets is None:
            octets, at, end = self._connection.rest, 0, len(self._connection.rest)
        events: list[Event] = []
        part_end = min(end, at + SCANNED_BYTES_MAX)
        after = self.scanner.scan(octets, at, part_end, events)
        while after == at and part_end < end:
            # A frame, or a publish, is longer than the part.
            part_end = min(end, 2 * part_end - at)
            after = self.scanner.scan(octets, at, part_end, events)
        # There were none: nothing is scanned before all of the last scan is handled.
        self.events.extend(events)
        self.event_bytes = after - at
        self.is_scanned = part_end == end
        if self.buffer is None:
            self._connection.rest = self._connection.rest[after:]
        else:
            self.at = after

    def drop(self) -> None:
        """Ignore all that the client has sent and that is not handled yet."""
        self.events.clear()
        self.is_scanned = True
        self.at = self._end
        self._connection.rest = b""

    def put_back(self, events: Iterable[Event], waiting_bytes: int) -> None:
        """Let events wait, in this order, before all other waiting ones.

        Args:
            events: Events that were parked.
            waiting_bytes: About how many octets the other waiting ones came from.
        """
        again = tuple(events)
        self.event_bytes = waiting_bytes + sum(map(cost_bytes, again))
        self.events.extendleft(reversed(again))

    def pause(self) -> None:
        """Do not read the client before what waits is handled."""
        if not self.is_paused:
            self.is_paused = True
            self._connection.pause_reading(WAITING)

    def pause_while(self, *, is_busy: bool) -> None:
        """Read the client only while all that it has sent is handled.

        One that does not read its replies is not read for that reason already.

        Args:
            is_busy: Whether something that it has sent is not handled yet.
        """
        is_waiting = is_busy and not self._connection.is_backlogged
        if is_waiting == self.is_paused:
            return
        self.is_paused = is_waiting
        if is_waiting:
            self._connection.pause_reading(WAITING)
        else:
            self._connection.resume_reading(WAITING)
