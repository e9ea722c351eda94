"""One client's connection: the socket, its buffers and its timers.

A thin shell around the parts that do no I/O. It passes octets to the session and sends the
session's octets. It decides when to read, when to pause reading, and when to close the socket.
"""

from __future__ import annotations

import asyncio
import logging
from fcntl import ioctl
from struct import Struct
from termios import TIOCOUTQ
from typing import TYPE_CHECKING, cast

from amqp_server.base.socket_names import SocketNames, names_of
from amqp_server.connections.client_timeouts import ClientTimeouts
from amqp_server.connections.octet_counters import OctetCounters
from amqp_server.connections.outbox import Outbox
from amqp_server.connections.quick_ack import acknowledge_now
from amqp_server.connections.session.client_session import ClientSession
from amqp_server.connections.session.session_input import WAITING
from amqp_server.connections.tls.description import TlsDescription, describe_tls
from amqp_server.connections.tls.peer_certificate import login_name
from amqp_server.connections.tls.transport import TlsTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from amqp_server.broker.channel import Channel
    from amqp_server.connections.server_context import ServerContext
    from amqp_server.protocol.connection_machine import ConnectionMachine
    from amqp_server.protocol.large_delivery import Octets

logger = logging.getLogger("amqp_server.client_connection")

_INT = Struct("i")
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
_OLD_PROTOCOL_HEADER = b"AMQP\x01\x01\x00\x09"
_HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"
LARGE_REST_BYTES = 32 * 1024
"""Octets left over from a read of which the next one may be larger: with bodies of 1 MiB, a read of
128 KiB costs more time for itself than for its octets."""
WRITE_BUFFER_HIGH_BYTES = 1024 * 1024
"""Unsent bytes above which the broker sends a client no more deliveries."""
_REFUSED = "refused"
"""Reason not to read: the login was refused, and the client understands no close with a reason."""
_UNSENT = "unsent"
"""Reason not to read: the client does not read the replies to its own requests."""
_SERVED = "served"
"""Reason not to read: the client used its time slice of this turn."""
_MOMENTARY = frozenset({_SERVED, WAITING})
"""Reasons that end within a few turns."""


class ClientConnection(asyncio.BufferedProtocol):
    """The asyncio protocol of one accepted socket.

    Attributes:
        octets: Counters of what was received and sent.
        rest: Octets of the last read that are not scanned yet, or begin a frame, or a publish,
            whose end has not come.
    """

    def __init__(self, server: ServerContext) -> None:
        self.name = "?"
        self.is_writable = True
        self.heartbeat_seconds = 0
        self._server = server
        self._limits = server.config.limits
        self._transport: asyncio.Transport | None = None
        self._outbox: Outbox | None = None
        self._session: ClientSession | None = None
        self.rest = b""
        self._pauses: set[object] = set()
        self._has_received = False
        self._has_sent = False
        self._taken_bytes = 0
        self.octets = OctetCounters()
        self._is_lost = False
        self._peer_is_first = False
        self._is_ending = False
        self._is_full = False
        self._closes_when_sent = False
        self._is_logged_in = False
        self._is_aborted = False
        self._abort_reason = ""
        self._names: SocketNames | None = None
        self._tls: TlsTransport | None = None
        self._timeouts = ClientTimeouts(self._limits)

    # For what reads the socket first

    def come_from(self, names: SocketNames) -> None:
        """Use the addresses that a trusted proxy has named, before the connection is made."""
        self._names = names

    def names_of(self, transport: asyncio.BaseTransport) -> SocketNames:
        """Return the addresses of both ends: those that a proxy has named, or the socket's."""
        return self._names or names_of(transport)

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport and wait for the client, which sends first (AMQP, section 4.2.2)."""
        # uvloop's transports have the interface, not the base class.
        self._transport = transport = cast("asyncio.Transport", transport)
        self._names = self.names_of(transport)
        self.name = self._names.text
        self._tls = transport if isinstance(transport, TlsTransport) else None
        transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_BYTES)
        self._outbox = Outbox(
            transport,
            self._server.broker.turn,
            self._server.large_writes,
            WRITE_BUFFER_HIGH_BYTES,
            self._on_outbox_empty,
        )
        if not self._server.connections.admit(self):
            logger.warning("connection refused peer=%s reason=too many connections", self.name)
            transport.abort()
            return
        self._timeouts.wait_for_login(self.abandon)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the part of the shared read buffer behind what the last read left over."""
        rest = len(self.rest)
        if not rest and self._is_logged_in:
            return self._server.first_view
        self._server.read_buffer[:rest] = self.rest
        if not self._is_logged_in:
            # Of a client that is not logged in, the server keeps no more than one frame.
            return self._server.read_view[rest : max(self._limits.login_bytes_max + 8, rest + 1)]
        # Much is left over of a large frame only, and more of them follow as a rule.
        limits = self._limits
        is_large = rest >= LARGE_REST_BYTES
        size = limits.large_read_bytes if is_large else limits.read_buffer_bytes
        return self._server.read_view[rest : rest + size]

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the octets that were read; copy those that must wait for the next read."""
        self._has_received = True
        octets = self.octets
        octets.recv_oct += nbytes
        octets.recv_cnt += 1
        end = len(self.rest) + nbytes
        if self._is_ending:
            at = end
        elif self._session is not None:
            at = self._session.receive(self._server.read_buffer, 0, end)
        else:
            at = self._receive_first(end)
        # Handling the octets may have ended the connection: then nothing handles the rest.
        is_rest = at < end and not self._is_ending
        self.rest = bytes(self._server.read_view[at:end]) if is_rest else b""
        if is_rest and self._transport is not None:
            acknowledge_now(self._transport)
        if nbytes >= self._limits.read_buffer_bytes:
            # libuv would read up to 32 times in a row before it serves another connection.
            # Consumers would not get what this client publishes, and their queues would fill up.
            self.pause_reading(_SERVED)
            self._server.read_on_later(self)

    def eof_received(self) -> bool:
        """Return False: asyncio closes the transport when the peer has closed its side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that the client owned."""
        self._is_lost = True
        self.is_writable = False
        if self._outbox is not None:
            # The two refer to each other: only the garbage collector would free them.
            self._outbox.clear()
            self._outbox = None
        self._timeouts.stop()
        self._server.heartbeats.remove(self)
        self._server.lingering.remove(self)
        if self._session is not None:
            reason = exc or ("closed by the server" if self._is_aborted else "closed by peer")
            if self._session.is_open:
                logger.warning("connection lost peer=%s reason=%s", self.name, reason)
            self._session.end(self._abort_reason or str(reason))
            self.count_octets()
            # The two refer to each other: only the garbage collector would free them.
            self._session = None
        self._server.connections.forget(self)

    def pause_writing(self) -> None:
        """Stop deliveries: the client reads too slowly, or the connection is ending."""
        self._is_full = True
        self.is_writable = False

    def resume_writing(self) -> None:
        """Send what waits; then resume deliveries, and requests that waited for room."""
        self._is_full = False
        if self._outbox is not None and self._outbox.waiting_bytes:
            self._outbox.go_on()
        elif self._is_ending:
            if not self._peer_is_first:
                self._linger()
        else:
            self._resume_deliveries()

    def _on_outbox_empty(self) -> None:
        if self._closes_when_sent and self._transport is not None:
            self._transport.close()
        elif self._is_ending:
            self._end_writing()
        elif not self._is_full:
            self._resume_deliveries()

    def _resume_deliveries(self) -> None:
        self.is_writable = True
        if self._session is not None:
            # Or more octets came before those that wait.
            self._session.wait_for_events()
        self.resume_reading(_UNSENT)
        if self._session is not None:
            self._session.resume_handling()
            self._session.wake_consumers()

    # For the session

    @property
    def is_backlogged(self) -> bool:
        """Whether so much is unsent that the session should send no more replies.

        Never while `is_writable`.
        """
        return _UNSENT in self._pauses

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait in this process to be sent to the client, without the kernel's buffer."""
        # Any thread may ask: read each once.
        outbox = self._outbox
        if self._transport is None:
            return 0
        waiting_bytes = 0 if outbox is None else outbox.unsent_bytes
        return waiting_bytes + self._transport.get_write_buffer_size()

    @property
    def unread_bytes(self) -> int:
        """Bytes kept until the client reads: unsent ones, and direct replies behind them."""
        session = self._session
        return self.unsent_bytes + (0 if session is None else session.waiting_reply_bytes)

    @property
    def held_bytes(self) -> int:
        """Bytes in memory that come from the client or go to it."""
        session = self._session
        waiting_bytes = 0 if session is None else session.waiting_event_bytes
        encrypted_bytes = 0 if self._tls is None else self._tls.encrypted_bytes
        return self.unread_bytes + len(self.rest) + waiting_bytes + encrypted_bytes

    @property
    def taken_bytes(self) -> int:
        """Bytes that the client's system has acknowledged; they grow when the client reads."""
        # Unsent octets may be encrypted, which makes them longer.
        added_bytes = 0 if self._tls is None else self._tls.overhead_bytes
        return self.octets.send_oct + added_bytes - self.unsent_bytes - self._unacknowledged_bytes

    @property
    def _unacknowledged_bytes(self) -> int:
        """Bytes in the kernel's send buffer; 0 where the system does not say.

        The transport sees the kernel take octets only in large pieces: it waits until a third of
        that buffer is free, which are megabytes.
        """
        socket = None if self._transport is None else self._transport.get_extra_info("socket")
        if socket is None or self._is_lost:
            return 0
        try:
            return _INT.unpack(ioctl(socket.fileno(), TIOCOUTQ, _INT.pack(0)))[0]  # type: ignore[no-any-return]
        except OSError:
            return 0

    def handshake_done(self) -> None:
        """Cancel the timeout of the handshake, and read as much at a time as others do."""
        self._timeouts.stop()
        self._is_logged_in = True

    def begin_heartbeats(self, interval_seconds: int) -> None:
        """Send heartbeats and watch the peer for silence; an interval of 0 does neither."""
        self.heartbeat_seconds = interval_seconds
        if interval_seconds:
            self._server.heartbeats.add(self)

    def close(self, *, peer_is_first: bool = False) -> None:
        """Send nothing more; close the socket when the peer closes its side, or after a timeout.

        The server reads and drops what still arrives. A socket that is closed with unread octets
        answers with a reset: the peer could lose what was sent last, such as the reason of the
        close.

        Args:
            peer_is_first: Whether the peer has some time to close its side before this
                side tells it that nothing follows. A client that closes a connection from several
                threads would take the end of the stream for a failure while it handles close-ok.
        """
        if self._transport is None or self._is_lost or self._is_ending:
            return
        self._peer_is_first = peer_is_first
        if not self._server.lingering.admit(self):
            self._close_at_once()
            return
        self._is_ending = True
        self.is_writable = False
        self._server.heartbeats.remove(self)
        self.rest = b""
        if self._pauses:
            self._pauses.clear()
            self._transport.resume_reading()
        self._limit_draining()
        self._flush()
        if self._outbox is None or not self._outbox.waiting_bytes:
            self._end_writing()

    def _end_writing(self) -> None:
        """Tell the peer that nothing follows what the transport has, or wait for the peer."""
        if self._transport is None or self._is_lost:
            return
        if self._peer_is_first:
            self._timeouts.wait_for_peer_to_close(self._end_after_peer)
            return
        # With a limit of 0, `resume_writing` is called when everything is sent.
        self._transport.set_write_buffer_limits(high=0)
        self._transport.write_eof()
        if self._transport.get_write_buffer_size() == 0:
            self._linger()

    def _end_after_peer(self) -> None:
        """Wait no longer for the peer to close first."""
        self._peer_is_first = False
        self._limit_draining()
        self._end_writing()

    def close_later(self) -> None:
        """Wait for the peer's connection.close-ok, then close the socket.

        The session reads and drops frames during that time, so `close` need not linger after it.
        """
        self._timeouts.wait_for_close_ok(self._close_at_once)

    def close_in_silence(self) -> None:
        """Close the socket after a delay, without a reply: this slows down password guessing."""
        self.pause_reading(_REFUSED)
        self._timeouts.delay_refusal(self.close)

    def write(self, octets: Octets) -> None:
        """Send frames; the caller must not change `octets` afterwards.

        Those of a large message go a part at a time; what is sent later comes after them.
        """
        outbox = self._outbox
        if outbox is None or self._is_ending:
            return
        self._has_sent = True
        counters = self.octets
        counters.send_oct += len(octets)
        counters.send_cnt += 1
        outbox.write(octets)
        if outbox.waiting_bytes:
            self.is_writable = False
        if not self.is_writable:
            self._pause_if_backlogged()

    def _pause_if_backlogged(self) -> None:
        """Stop reading a client that does not read, if too much is unsent."""
        if self.unsent_bytes > self._limits.write_buffer_bytes_per_connection_max:
            self.pause_reading(_UNSENT)

    def pause_reading(self, reason: object) -> None:
        """Stop reading the socket until every reason is lifted.

        An ending connection pauses only after its time slice: the server must read to its end.
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

    # amqp_server.connections.heartbeats.Beating

    def beat(self) -> None:
        """Send a heartbeat if nothing else was sent since the last call."""
        if not self._has_sent:
            self.write(_HEARTBEAT_FRAME)
        self._has_sent = False

    def take_silence(self) -> bool:
        """Return whether the peer sent nothing since the last call while the server could read.

        While we pause reads because the client's send buffer is full, draining that buffer counts
        as a sign of life. A client that an alarm blocks may be stuck in a write: it is not watched,
        as in RabbitMQ.
        """
        taken_bytes = self.taken_bytes
        is_stuck = self._pauses == {_UNSENT} and taken_bytes == self._taken_bytes
        is_blocked = self._session is not None and self._session.parked.is_blocked
        silent = not self._has_received and not is_blocked and (not self._pauses or is_stuck)
        self._has_received = False
        self._taken_bytes = taken_bytes
        return silent

    def abandon(self, reason: str) -> None:
        """Close the socket at once, without a message to the peer."""
        logger.warning("closing connection peer=%s reason=%s", self.name, reason)
        self._abort_reason = reason
        self._abort()

    # For the server

    def cut_off(self, reason: str) -> None:
        """Close the socket at once, because the client does not read; its messages return."""
        session = self._session
        logger.warning(
            "slow reader cut off peer=%s user=%s client=%s unread_bytes=%d reason=%s",
            self.name,
            self.user,
            "" if session is None else session.client_name,
            self.unread_bytes,
            reason,
        )
        self._abort_reason = reason
        self._abort()

    def read_on(self) -> None:
        """Resume reading: every connection had a turn since the last full read."""
        self.resume_reading(_SERVED)

    def on_alarms_changed(self) -> None:
        """Pass on to the session that an alarm has begun or ended."""
        if self._session is not None:
            self._session.on_alarms_changed()

    @property
    def user(self) -> str:
        """Name of the user who logged in; empty before."""
        return "" if self._session is None else self._session.login

    @property
    def vhost(self) -> str:
        """Name of the open virtual host; empty before it is opened and after the close."""
        return "" if self._session is None else self._session.vhost

    @property
    def tls(self) -> TlsDescription | None:
        """Description of the connection's TLS; None without TLS, or after its end."""
        return None if self._tls is None or self._is_lost else describe_tls(self._tls.ssl_object)

    @property
    def shown_tls(self) -> dict[str, object]:
        """Description of the connection's TLS, by RabbitMQ's names; empty without TLS."""
        described = self.tls
        return {} if described is None else described._asdict()

    @property
    def client_name(self) -> str:
        """Name that the client gave its connection; empty if it gave none."""
        return "" if self._session is None else self._session.client_name

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The open channels."""
        return () if self._session is None else tuple(self._session.channels.values())

    @property
    def channel_count(self) -> int:
        """Number of open channels."""
        return 0 if self._session is None else len(self._session.channels)

    def count_octets(self) -> None:
        """Add the octets since the last call to those of the virtual host."""
        vhost = None if self._session is None else self._session.virtual_host
        if vhost is not None:
            self.octets.add_to(vhost.counters)

    @property
    def names(self) -> SocketNames:
        """Addresses of both ends; known from the start of the connection."""
        assert self._names is not None, "known from the start of the connection"
        return self._names

    @property
    def handshake(self) -> ConnectionMachine | None:
        """Handshake of the connection; None before the first octets, and after the end."""
        return None if self._session is None else self._session.handshake

    @property
    def state(self) -> str:
        """State of the connection, by RabbitMQ's names."""
        if self._session is not None and self._session.parked.is_watching:
            return "blocked" if self._session.parked.is_blocked else "blocking"
        return "flow" if self._pauses - _MOMENTARY else "running"

    @property
    def unacked_count(self) -> int:
        """Number of deliveries that the client has not answered."""
        channels = () if self._session is None else self._session.channels.values()
        return sum(channel.unacked.count for channel in channels)

    def force_close(self, explanation: str) -> Iterator[None]:
        """Send the client a connection.close with this explanation; close when it has answered.

        What the client has sent before is handled first, in steps.
        """
        if self._session is not None:
            yield from self._session.force_close(explanation)
        else:
            self.close()

    def _linger(self) -> None:
        """Wait for the peer to close its side; everything is sent."""
        self._timeouts.linger(self._abort)

    def _close_at_once(self) -> None:
        """Close the socket when everything is sent, or if that takes too long."""
        if self._transport is not None and not self._is_lost:
            self._limit_draining()
            self._flush()
            if self._outbox is not None and self._outbox.waiting_bytes:
                self._closes_when_sent = True
            else:
                self._transport.close()

    def _flush(self) -> None:
        """Let the transport have what is held until the turn ends: nothing follows."""
        if self._outbox is not None:
            self._outbox.flush()

    def _limit_draining(self) -> None:
        self._timeouts.wait_for_draining(self.abandon)

    def _abort(self) -> None:
        if self._transport is not None:
            self._is_aborted = True
            # What the peer is told, if anything, must have left.
            self._flush()
            self._transport.abort()

    def _receive_first(self, end: int) -> int:
        """Handle the first octets; return the position of those that must come again."""
        at = self._receive_protocol_header(end)
        if self._session is not None:
            at = self._session.receive(self._server.read_buffer, at, end)
        return at

    def _receive_protocol_header(self, end: int) -> int:
        """Check the protocol header, start the handshake; return the position after the header."""
        received = bytes(self._server.read_view[: min(end, 8)])
        if len(received) < 8 and PROTOCOL_HEADER.startswith(received):
            return 0
        if received not in (PROTOCOL_HEADER, _OLD_PROTOCOL_HEADER):
            logger.warning("bad protocol header peer=%s hint=%s", self.name, _hint(received))
            self.write(PROTOCOL_HEADER)
            self.close()
            return end
        authenticator = self._server.handshake_factory.authenticator(self._peer_host)
        machine = self._server.handshake_factory.start(authenticator, self._certificate_user)
        self._session = ClientSession(self._server, self, machine, authenticator)
        return 8

    @property
    def _certificate_user(self) -> str | None:
        """User whom the client's certificate names; None if clients are asked for none."""
        config = self._server.config
        if self._tls is None or config.tls_verify != "peer":
            return None
        try:
            certificate = self._tls.ssl_object.getpeercert()
        except ValueError:
            # A name in it is not UTF-8.
            return ""
        return login_name(certificate or {}, config)

    @property
    def _peer_host(self) -> str:
        """IP address of the client."""
        assert self._names is not None, "known from the start of the connection"
        return self._names.peer_host


def _hint(received: bytes) -> str:
    """Return a guess at the protocol of a peer that does not send the AMQP header."""
    if received[:4] in (b"GET ", b"POST", b"HEAD", b"PUT "):
        return "an HTTP client; this port speaks AMQP 0-9-1"
    if received[:2] == b"\x16\x03":
        return "a TLS client; this port speaks AMQP 0-9-1 without TLS"
    if received[:4] == b"AMQP":
        return f"another version of AMQP ({received[4:].hex(' ')})"
    return "not an AMQP client"
