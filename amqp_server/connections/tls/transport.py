"""The transport of a TLS connection: collects what is written, encrypts and sends it.

It has the methods of `asyncio.Transport` that a connection of a client uses, with the same
meaning. Octets that are written within one turn of the loop are encrypted together at its end: many
small frames become one record of up to 16 KiB. While the socket is full, nothing is encrypted.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Octets = bytes | bytearray | memoryview

SEALED_BYTES_PER_TURN: Final = 256 * 1024
"""Octets of one connection that are encrypted in one turn: about 1 ms."""
SOCKET_HIGH_BYTES: Final = 64 * 1024
"""Encrypted octets that wait for the socket, above which no more are encrypted."""
_SMALL_BYTES: Final = 16 * 1024
"""Pieces up to this size are joined; larger ones are not copied."""


def _do_nothing() -> None:
    pass


class TlsTransport(asyncio.Transport):
    """Writes of one TLS connection. The event loop owns it.

    Args:
        socket: Transport of the socket, whose protocol passes on what it is told.
        ssl_object: TLS state after the handshake.
        incoming: Octets that were read and are not decrypted yet.
        outgoing: Where `ssl_object` puts encrypted octets.
        protocol: Protocol that reads and writes plain octets.
        read_on: Called later after `resume_reading`.

    Attributes:
        is_paused: Whether the protocol wants nothing to be read.
        drops_input: Whether everything that still arrives is dropped.
        ssl_object: TLS state after the handshake.
        overhead_bytes: Encrypted octets so far minus the plain ones that they stand for.
    """

    def __init__(
        self,
        socket: asyncio.Transport,
        ssl_object: ssl.SSLObject,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        protocol: asyncio.BaseProtocol,
        read_on: Callable[[], None],
    ) -> None:
        super().__init__()
        self.is_paused = False
        self.drops_input = False
        self.overhead_bytes = 0
        self._socket = socket
        self.ssl_object = ssl_object
        self._incoming = incoming
        self._outgoing = outgoing
        self._protocol = protocol
        self._read_on = read_on
        self._call_soon = asyncio.get_running_loop().call_soon
        self._pending: deque[Octets] = deque()
        self._pending_bytes = 0
        self._high = SOCKET_HIGH_BYTES
        self._low = SOCKET_HIGH_BYTES // 4
        self._is_scheduled = False
        self._is_socket_full = False
        self._is_full = False
        self._is_closing = False
        self._has_ended = False
        socket.set_write_buffer_limits(high=SOCKET_HIGH_BYTES)

    @property
    def encrypted_bytes(self) -> int:
        """Bytes that were read and are not decrypted yet. Any thread may ask."""
        return self._incoming.pending

    # asyncio.Transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return `ssl_object`, or what the transport of the socket knows."""
        if name == "ssl_object":
            return self.ssl_object
        return self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Return whether the connection closes or is lost."""
        return self._is_closing or self._socket.is_closing()

    def close(self) -> None:
        """Send what waits, end TLS and close the socket; read nothing more."""
        if self._is_closing:
            return
        self._is_closing = True
        self.drops_input = True
        if self._has_ended:
            self._socket.close()
        else:
            self._seal_later()

    def abort(self) -> None:
        """Close the socket at once."""
        self._is_closing = True
        self.lost()
        self._socket.abort()

    def can_write_eof(self) -> bool:
        """Return True: see `write_eof`."""
        return True

    def write_eof(self) -> None:
        """Tell the peer that nothing follows; drop what it still sends until it closes."""
        if not self.drops_input:
            self.drops_input = True
            self._seal_later()

    def is_reading(self) -> bool:
        """Return whether octets are read."""
        return not self.is_paused and not self._is_closing

    def pause_reading(self) -> None:
        """Read nothing until `resume_reading`; at most one read of the socket waits encrypted."""
        self.is_paused = True
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read on, in the next turn."""
        self.is_paused = False
        self._call_soon(self._read_on)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send octets; the caller must not change them afterwards."""
        if self._is_closing or self.drops_input or not len(data):
            return
        self._pending.append(data)
        self._pending_bytes += len(data)
        self._seal_later()
        self._pause_if_full()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send several pieces; the caller must not change them afterwards."""
        for data in list_of_data:
            self.write(data)

    def get_write_buffer_size(self) -> int:
        """Return the bytes that wait in this process, encrypted or not. Any thread may ask."""
        return self._pending_bytes + self._socket.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the limits, lower one first."""
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the sizes at which the protocol is paused and resumed."""
        self._high = SOCKET_HIGH_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low
        self._socket.set_write_buffer_limits(high=min(self._high, SOCKET_HIGH_BYTES))
        self._pause_if_full()

    # For the protocol of the socket

    def on_socket_full(self) -> None:
        """Encrypt nothing more until `on_socket_ready`."""
        self._is_socket_full = True

    def on_socket_ready(self) -> None:
        """Go on: the socket has taken most of what was encrypted."""
        self._is_socket_full = False
        if self._pending:
            self._seal_later()
        self._resume_if_empty()

    def send_sealed(self) -> int:
        """Send what the TLS state has encrypted of its own accord; return how many octets."""
        sealed = self._outgoing.read()
        if sealed:
            self._socket.write(sealed)
        return len(sealed)

    def lost(self) -> None:
        """Drop what waits: the socket is gone."""
        self._pending.clear()
        self._pending_bytes = 0
        self._has_ended = True

    def release(self) -> None:
        """Refer to no protocol any more, after its `connection_lost`."""
        # They refer to each other: only the garbage collector would free them.
        self._protocol = asyncio.Protocol()
        self._read_on = _do_nothing

    # Encryption

    def _seal_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._seal)

    def _seal(self) -> None:
        """Encrypt and send what waits: a part of it, if that is much."""
        self._is_scheduled = False
        if self._has_ended:
            return
        left_bytes = SEALED_BYTES_PER_TURN
        try:
            while self._pending and left_bytes > 0 and not self._is_socket_full:
                octets = self._take(left_bytes)
                self.ssl_object.write(octets)
                left_bytes -= len(octets)
                self._pending_bytes -= len(octets)
                self.overhead_bytes += self.send_sealed() - len(octets)
        except ssl.SSLError:
            # The peer has broken the protocol: reading has found it, or will do.
            self.abort()
            return
        if self._pending:
            if not self._is_socket_full:
                self._seal_later()
        elif self.drops_input:
            self._end()
        self._resume_if_empty()

    def _take(self, count_max: int) -> Octets:
        """Remove the next octets from those that wait: small pieces together."""
        first = self._pending.popleft()
        if len(first) > count_max:
            view = memoryview(first)
            self._pending.appendleft(view[count_max:])
            return view[:count_max]
        if len(first) > _SMALL_BYTES or not self._pending:
            return first
        pieces, count = [first], len(first)
        while self._pending:
            size = len(self._pending[0])
            if size > _SMALL_BYTES or count + size > count_max:
                break
            pieces.append(self._pending.popleft())
            count += size
        return b"".join(pieces)

    def _end(self) -> None:
        """Send the end of TLS (close_notify) and that of the socket: nothing follows."""
        self._has_ended = True
        # It wants the peer's close_notify; the end of the peer's socket is as good.
        with contextlib.suppress(ssl.SSLError, OSError):
            self.ssl_object.unwrap()
        self.send_sealed()
        if self._is_closing:
            self._socket.close()
        elif not self._socket.is_closing():
            self._socket.write_eof()
            # The protocol has paused reading, or the last read filled the buffer.
            self._socket.resume_reading()

    # Flow control

    def _pause_if_full(self) -> None:
        if not self._is_full and self.get_write_buffer_size() > self._high:
            self._is_full = True
            self._protocol.pause_writing()

    def _resume_if_empty(self) -> None:
        if self._is_full and self.get_write_buffer_size() <= self._low:
            self._is_full = False
            self._protocol.resume_writing()
