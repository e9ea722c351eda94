"""One client's connection: the socket, its buffers and its timers.

The thin shell around the sans-IO parts. Octets go to the session and come from it; this
knows when to read, when not to, and when to give up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from amqp_server.client_session import ClientSession

if TYPE_CHECKING:
    from amqp_server.server import Server

logger = logging.getLogger(__name__)

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
_OLD_PROTOCOL_HEADER = b"AMQP\x01\x01\x00\x09"
_HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
CLOSE_SECONDS_MAX = 2.0
"""How long a peer may take to answer connection.close before its socket is closed."""
DRAIN_SECONDS_MAX = 10.0
"""How long a peer may take to read what is unsent when its socket is closed."""
WRITE_BUFFER_HIGH_BYTES = 1024 * 1024
"""Unsent bytes above which a client gets no more deliveries."""
_REFUSED = "refused"
"""Reason not to read: the login was refused, and the peer cannot be told."""
_UNSENT = "unsent"
"""Reason not to read: answers pile up at a client that asks and does not read."""
_SERVED = "served"
"""Reason not to read: the client had its share of this turn of the loop."""


class ClientConnection(asyncio.BufferedProtocol):
    """The protocol of one accepted socket."""

    def __init__(self, server: Server) -> None:
        self.name = "?"
        self.is_writable = True
        self.heartbeat_seconds = 0
        self._server = server
        self._limits = server.config.limits
        self._transport: asyncio.Transport | None = None
        self._session: ClientSession | None = None
        self._rest = b""
        self._pauses: set[object] = set()
        self._has_received = False
        self._has_sent = False
        self._unsent_bytes = 0
        self._is_lost = False
        self._is_ending = False
        self._peer: object = None
        self._timer: asyncio.TimerHandle | None = None

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; the client speaks first."""
        # uvloop's transports have the interface, not the base class.
        self._transport = transport = cast("asyncio.Transport", transport)
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._peer = peer
        self.name = f"{_address(peer)} -> {_address(local)}"
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_BYTES)
        if not self._server.admit(self):
            logger.warning("connection refused peer=%s reason=too many connections", self.name)
            transport.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(
            self._limits.handshake_seconds_max, self.abandon, "handshake timeout"
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend the loop's read buffer, after the rest of what came before."""
        buffer = self._server.read_buffer
        rest = len(self._rest)
        buffer[:rest] = self._rest
        return self._server.read_view[rest : rest + self._limits.read_buffer_bytes]

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read; everything of it is handled or copied before this returns."""
        self._has_received = True
        end = len(self._rest) + nbytes
        at = end if self._is_ending else self._receive(end)
        # What it was may have ended the connection, and nobody takes the rest.
        is_rest = at < end and not self._is_ending
        self._rest = bytes(self._server.read_view[at:end]) if is_rest else b""
        if nbytes == self._limits.read_buffer_bytes:
            # libuv would read on, 32 times over, before anybody else is served: no consumer
            # would get what this client publishes, and their queues would be full meanwhile.
            self.pause_reading(_SERVED)
            self._server.note_more_input(self)

    def eof_received(self) -> bool:
        """Let the transport close when the peer has no more to say."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back everything that the client held."""
        self._is_lost = True
        self._cancel_timer()
        self._server.heartbeats.remove(self)
        self._server.lingering.remove(self)
        if self._session is not None:
            if self._session.is_open:
                reason = exc or "closed by peer"
                logger.warning("connection lost peer=%s reason=%s", self.name, reason)
            self._session.end()
        self._server.forget(self)

    def pause_writing(self) -> None:
        """Stop deliveries: the client does not read fast enough, or has to go."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """Go on with deliveries, and with what the client asked for meanwhile."""
        if self._is_ending:
            self._linger()
            return
        self.is_writable = True
        self.resume_reading(_UNSENT)
        if self._session is not None:
            self._session.resume_handling()
            self._session.wake_consumers()

    # For the session

    @property
    def is_clogged(self) -> bool:
        """Whether so much is unsent that nothing more should be answered."""
        return _UNSENT in self._pauses

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the client has not read yet, beside what the kernel has."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def handshake_done(self) -> None:
        """Stop waiting for the end of the handshake."""
        self._cancel_timer()

    def begin_heartbeats(self, interval_seconds: int) -> None:
        """Watch the peer from now on; an interval of 0 watches nothing."""
        self.heartbeat_seconds = interval_seconds
        if interval_seconds:
            self._server.heartbeats.add(self)

    def close(self) -> None:
        """Say no more: the socket is closed when the peer closes its side, or after a while.

        What still comes is dropped. A socket that is closed before it is read to the end answers
        with a reset, which may take from the peer what it was sent last and why it has to go.
        """
        if self._transport is None or self._is_lost or self._is_ending:
            return
        if not self._server.lingering.admit(self):
            self._close_at_once()
            return
        self._is_ending = True
        self.is_writable = False
        self._server.heartbeats.remove(self)
        self._rest = b""
        if self._pauses:
            self._pauses.clear()
            self._transport.resume_reading()
        self._limit_draining()
        # With this limit `resume_writing` says that everything is sent.
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write_eof()
        if self._transport.get_write_buffer_size() == 0:
            self._linger()

    def close_later(self) -> None:
        """Give the peer some time to answer our connection.close, then close the socket.

        It has been read and dropped for as long as `close` would do it again.
        """
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(CLOSE_SECONDS_MAX, self._close_at_once)

    def close_in_silence(self) -> None:
        """Close the socket after a while, unread: whoever guesses a password is slowed down."""
        self.pause_reading(_REFUSED)
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(
            self._limits.refused_login_seconds, self.close
        )

    def write(self, octets: bytes | bytearray) -> None:
        """Send frames; the caller does not change them afterwards."""
        if self._transport is None or self._is_lost or self._is_ending:
            return
        self._has_sent = True
        self._transport.write(octets)
        self._pause_if_clogged()

    def write_pieces(self, pieces: list[bytes | memoryview]) -> None:
        """Send frames given in pieces; the transport keeps the pieces until they are sent."""
        if self._transport is None or self._is_lost or self._is_ending:
            return
        self._has_sent = True
        self._transport.writelines(pieces)
        self._pause_if_clogged()

    def _pause_if_clogged(self) -> None:
        if (
            not self.is_writable
            and self.unsent_bytes > self._limits.write_buffer_bytes_per_connection_max
        ):
            self.pause_reading(_UNSENT)

    def pause_reading(self, reason: object) -> None:
        """Stop reading the socket until every reason is lifted.

        What is read to be dropped is read until the peer is done, with a pause after each share.
        """
        if self._is_ending and reason is not _SERVED:
            return
        if not self._pauses and self._transport is not None:
            self._transport.pause_reading()
        self._pauses.add(reason)

    def resume_reading(self, reason: object) -> None:
        """Lift one reason for not reading."""
        if reason in self._pauses:
            self._pauses.discard(reason)
            transport = self._transport
            if not self._pauses and transport is not None and not transport.is_closing():
                transport.resume_reading()

    # amqp_server.heartbeats.Beating

    def beat(self) -> None:
        """Send a heartbeat if nothing else was sent since the last time."""
        if not self._has_sent:
            self.write(_HEARTBEAT_FRAME)
        self._has_sent = False

    def take_silence(self) -> bool:
        """Return whether nothing arrived though it was listened to.

        A client that is not read because it does not read shows by reading that it lives. One
        that an alarm blocks may be stuck in a write: it is not watched, as in RabbitMQ.
        """
        unsent_bytes = self.unsent_bytes
        is_stuck = self._pauses == {_UNSENT} and unsent_bytes >= self._unsent_bytes
        is_blocked = self._session is not None and self._session.parked.is_blocked
        silent = not self._has_received and not is_blocked and (not self._pauses or is_stuck)
        self._has_received = False
        self._unsent_bytes = unsent_bytes
        return silent

    def abandon(self, reason: str) -> None:
        """Drop the connection without a word to the peer."""
        logger.warning("closing connection peer=%s reason=%s", self.name, reason)
        self._abort()

    # For the server

    def read_on(self) -> None:
        """Read again: everybody had a turn since the last full read."""
        self.resume_reading(_SERVED)

    def on_alarms_changed(self) -> None:
        """Tell the session of alarms that have begun or ended."""
        if self._session is not None:
            self._session.on_alarms_changed()

    @property
    def vhost(self) -> str:
        """The virtual host that is open; empty before and after."""
        return "" if self._session is None else self._session.vhost

    @property
    def channel_count(self) -> int:
        """Channels that are open."""
        return 0 if self._session is None else len(self._session.channels)

    def force_close(self, explanation: str) -> None:
        """Tell the client why it has to go, and close when it has answered."""
        if self._session is not None:
            self._session.force_close(explanation)
        else:
            self.close()

    def _linger(self) -> None:
        """Wait for the peer to close its side: everything is sent."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(
            self._limits.linger_seconds_max, self._abort
        )

    def _close_at_once(self) -> None:
        """Close the socket when everything is sent, or when the peer has read too slowly."""
        if self._transport is not None and not self._is_lost:
            self._limit_draining()
            self._transport.close()

    def _limit_draining(self) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(
            DRAIN_SECONDS_MAX, self.abandon, "does not read"
        )

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _receive(self, end: int) -> int:
        """Handle what was read; return the position of what must come again."""
        at = 0
        if self._session is None:
            at = self._receive_protocol_header(end)
        if self._session is not None:
            at = self._session.receive(self._server.read_buffer, at, end)
        return at

    def _receive_protocol_header(self, end: int) -> int:
        """Answer the protocol header; return the position after it."""
        received = bytes(self._server.read_view[: min(end, 8)])
        if len(received) < 8 and PROTOCOL_HEADER.startswith(received):
            return 0
        if received not in (PROTOCOL_HEADER, _OLD_PROTOCOL_HEADER):
            logger.warning("bad protocol header peer=%s hint=%s", self.name, _hint(received))
            self.write(PROTOCOL_HEADER)
            self.close()
            return end
        self._session = ClientSession(
            self._server, self, self._server.handshakes.start(_host(self._peer))
        )
        return 8

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _host(name: object) -> str:
    """Return the address of a socket name; a Unix socket's peer is this machine."""
    return str(name[0]) if isinstance(name, tuple) and name else "127.0.0.1"


def _address(name: object) -> str:
    if isinstance(name, tuple) and len(name) >= 2:
        return f"{name[0]}:{name[1]}"
    return str(name) or "?"


def _hint(received: bytes) -> str:
    """Return what a peer that does not speak AMQP probably is."""
    if received[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "an HTTP client; this port speaks AMQP 0-9-1"
    if received[:2] == b"\x16\x03":
        return "a TLS client; this port speaks AMQP 0-9-1 without TLS"
    if received[:4] == b"AMQP":
        return f"another version of AMQP ({received[4:].hex(' ')})"
    return "not an AMQP client"
