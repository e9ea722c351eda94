"""One TLS connection on a socket: its handshake, and what is read.

It stands between the transport of a socket and the protocol of a client, and looks like either to
the other. It does the same on every event loop. Compared with the TLS of asyncio and uvloop:

- a failed handshake is one line in the log, in words, and the client gets the alert that says why;
- all unsent octets are counted, encrypted ones too, so that the bounds of a connection hold;
- all connections share one buffer to read encrypted octets: an idle one has none of its own;
- handshakes get a time slice of each turn, and no more than a bounded number is under way.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, Final, cast

from amqp_server.base.socket_names import address_key
from amqp_server.connections.tls.transport import TlsTransport

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.base.socket_names import SocketNames
    from amqp_server.connections.accepted_connections import AcceptedConnections
    from amqp_server.connections.tls.handshake_queue import HandshakeQueue
    from amqp_server.connections.tls.reloading import CurrentContext

logger = logging.getLogger("amqp_server.tls.connection")

_HANDSHAKE_READ_BYTES: Final = 16 * 1024
_NO_TLS: Final = "the client speaks no TLS; this port needs it"
_REASONS: Final = {
    "HTTP_REQUEST": "an HTTP client; this port speaks AMQP 0-9-1 over TLS",
    "HTTPS_PROXY_REQUEST": "an HTTP client; this port speaks AMQP 0-9-1 over TLS",
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "UNKNOWN_PROTOCOL": _NO_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate",
    "UNSUPPORTED_PROTOCOL": "the client has no version of TLS that this port accepts",
    "VERSION_TOO_LOW": "the client has no version of TLS that this port accepts",
    "NO_SHARED_CIPHER": "the client has no cipher suite that this port accepts",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the server's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses the server's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that the server's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses the server's certificate",
}
"""Reasons of OpenSSL that operators meet."""


class TlsConnection(asyncio.BufferedProtocol):
    """The asyncio protocol of one socket that speaks TLS.

    Args:
        protocol: Protocol of the client, which reads and writes plain octets; connected when the
            handshake is done.
        names_of: Returns the names of both ends, for log lines.
        current: Context of new handshakes.
        handshake_queue: The TLS handshakes of the server.
        accepted: Sockets that are not connections of clients yet.
        seconds_max: Seconds that the handshake may take.
        buffer: Buffer for encrypted octets, shared by all connections of the server.

    Attributes:
        address: IP address or network of the client; empty before the socket is connected.
    """

    def __init__(
        self,
        protocol: asyncio.BufferedProtocol,
        names_of: Callable[[asyncio.BaseTransport], SocketNames],
        current: CurrentContext,
        handshake_queue: HandshakeQueue,
        accepted: AcceptedConnections,
        seconds_max: float,
        buffer: memoryview,
    ) -> None:
        self._protocol = protocol
        self._names_of = names_of
        self._current = current
        self._handshake_queue = handshake_queue
        self._accepted = accepted
        self._seconds_max = seconds_max
        self._buffer = buffer
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl_object: ssl.SSLObject | None = None
        self._socket: asyncio.Transport | None = None
        self._transport: TlsTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._name = "?"
        self.address = ""
        self._has_received = False
        self._is_started = False
        self._is_due = False
        self._has_failed = False

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, or wait until there is room for it."""
        # uvloop's transports have the interface, not the base class.
        self._socket = socket = cast("asyncio.Transport", transport)
        names = self._names_of(transport)
        self._name = names.text
        self.address = address_key(names.peer_host)
        if names.peer is None:
            # It was reset before the server looked, as load balancers end their checks.
            socket.abort()
            return
        if not self._accepted.admit(self):
            self._has_failed = True
            logger.warning("connection refused peer=%s reason=too many connections", self._name)
            socket.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(self._seconds_max, self._time_out)
        socket.pause_reading()
        self._handshake_queue.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the shared buffer; a handshake needs little."""
        if self._transport is None:
            return self._buffer[:_HANDSHAKE_READ_BYTES]
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt what was read, and pass it on."""
        transport = self._transport
        if transport is not None and transport.drops_input:
            return
        self._has_received = True
        self._incoming.write(self._buffer[:nbytes])
        if transport is None:
            self._step_later()
            return
        if nbytes == len(self._buffer) and self._socket is not None:
            # As in `ClientConnection`: libuv would read many times in a row before it serves
            # another socket.
            self._socket.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_socket)
        self._read()

    def eof_received(self) -> bool:
        """End the connection in order; return whether the socket stays open until then."""
        if self._transport is None:
            self._fail_by_end()
            return False
        if self._transport.drops_input:
            return self._transport.is_closing()
        self._protocol.eof_received()
        self._transport.close()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything, and pass it on."""
        self._cancel_timer()
        self._handshake_queue.remove(self)
        self._accepted.remove(self)
        if self._transport is not None:
            self._transport.lost()
            self._protocol.connection_lost(exc)
            self._transport.release()
        else:
            self._fail_by_end()
        self._socket = self._transport = self._ssl_object = None

    def pause_writing(self) -> None:
        """Encrypt no more until the socket has taken what is encrypted."""
        if self._transport is not None:
            self._transport.on_socket_full()

    def resume_writing(self) -> None:
        """Encrypt and send what waits."""
        if self._transport is not None:
            self._transport.on_socket_ready()

    # amqp_server.connections.tls.handshake_queue.Handshake

    def start(self) -> None:
        """Read the client's part of the handshake."""
        self._is_started = True
        if self._socket is None or self._socket.is_closing():
            return
        if self._incoming.pending:
            self._step_later()
        else:
            self._socket.resume_reading()

    def step(self) -> None:
        """Go on with the handshake: the client has sent something."""
        self._is_due = False
        if self._socket is None or self._socket.is_closing():
            return
        if self._ssl_object is None:
            # Not earlier: this takes time, too, and is memory that a silent client must not cost.
            self._ssl_object = self._current.context.wrap_bio(
                self._incoming, self._outgoing, server_side=True
            )
        try:
            self._ssl_object.do_handshake()
        except ssl.SSLWantReadError:
            self._send_sealed()
            self._socket.resume_reading()
        except (ssl.SSLError, OSError, ValueError) as error:
            # An alert that tells the client why.
            self._send_sealed()
            self._fail(failure_text(error))
            self._socket.close()
        else:
            self._send_sealed()
            self._connect(self._ssl_object, self._socket)

    # amqp_server.connections.accepted_connections.AcceptedConnection

    def abort(self) -> None:
        """Close the socket at once: the server stops."""
        self._has_failed = True
        if self._socket is not None:
            self._socket.abort()

    # The handshake

    def _step_later(self) -> None:
        if self._is_started and not self._is_due:
            self._is_due = True
            if self._socket is not None:
                self._socket.pause_reading()
            self._handshake_queue.step_later(self)

    def _connect(self, ssl_object: ssl.SSLObject, socket: asyncio.Transport) -> None:
        """Connect the client's protocol: the handshake is done."""
        self._cancel_timer()
        self._handshake_queue.remove(self)
        self._accepted.remove(self)
        self._transport = TlsTransport(
            socket,
            ssl_object,
            self._incoming,
            self._outgoing,
            self._protocol,
            self._read_on,
        )
        self._protocol.connection_made(self._transport)
        self._read_on()

    def _send_sealed(self) -> None:
        sealed = self._outgoing.read()
        if sealed and self._socket is not None:
            self._socket.write(sealed)

    def _time_out(self) -> None:
        self._fail(f"it took longer than {self._seconds_max:g} s")
        if self._socket is not None:
            self._socket.abort()

    def _fail_by_end(self) -> None:
        """Log that the client has gone, unless it had sent nothing.

        Load balancers look in this way whether the server is there.
        """
        if self._has_received:
            self._fail("the client closed the connection")

    def _fail(self, reason: str) -> None:
        """Log that the handshake failed, once."""
        if not self._has_failed:
            logger.warning("TLS handshake failed peer=%s reason=%s", self._name, reason)
        self._has_failed = True

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Reading

    def _read_on(self) -> None:
        """Pass on what was read before, then read the socket again."""
        self._read()
        self._read_socket()

    def _read_socket(self) -> None:
        socket, transport = self._socket, self._transport
        if socket is None or transport is None or transport.is_closing() or socket.is_closing():
            return
        if not transport.is_paused:
            socket.resume_reading()

    def _read(self) -> None:
        """Decrypt what has arrived, and pass it on until the protocol pauses."""
        while self._can_read():
            transport, ssl_object = self._transport, self._ssl_object
            assert transport is not None, "asked by `_can_read`"
            assert ssl_object is not None, "asked by `_can_read`"
            room = cast("memoryview", self._protocol.get_buffer(-1))
            count, size = 0, len(room)
            is_end = is_empty = False
            try:
                while count < size and self._has_octets(ssl_object):
                    got = ssl_object.read(size - count, room[count:])
                    is_end = not got
                    if is_end:
                        break
                    count += cast("int", got)
            except ssl.SSLWantReadError:
                is_empty = True
            except ssl.SSLError as error:
                self._break_off(error)
                return
            transport.overhead_bytes += transport.send_sealed()
            if count:
                self._protocol.buffer_updated(count)
            if is_end and not transport.drops_input:
                self._protocol.eof_received()
                transport.close()
            if is_empty or is_end:
                return

    def _can_read(self) -> bool:
        transport, ssl_object = self._transport, self._ssl_object
        if transport is None or ssl_object is None or transport.is_paused or transport.drops_input:
            return False
        return self._has_octets(ssl_object)

    def _has_octets(self, ssl_object: ssl.SSLObject) -> bool:
        # To ask is much cheaper than the exception of a read in vain.
        return self._incoming.pending > 0 or ssl_object.pending() > 0

    def _break_off(self, error: ssl.SSLError) -> None:
        """Close a connection whose octets are no TLS, or were changed on the way."""
        logger.warning("TLS broken off peer=%s reason=%s", self._name, failure_text(error))
        if self._transport is not None:
            self._transport.send_sealed()
            self._transport.abort()


def failure_text(error: BaseException) -> str:
    """Return why a handshake failed: for a log line, in words where they are known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = error.reason or str(error)
        return _REASONS.get(reason, reason.replace("_", " ").lower())
    return str(error)
