"""The socket of one client, as its session uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from amqp_server.connections.tls.description import TlsDescription
    from amqp_server.protocol.large_delivery import Octets


class ClientSocket(Protocol):
    """Sends and receives the octets of one client; `ClientConnection` is one.

    Attributes:
        name: Addresses of both ends, for log lines.
        is_writable: Whether the write buffer has room for deliveries.
        rest: Octets of the last read that are not scanned yet, or begin a frame, or a publish,
            whose end has not come.
    """

    name: str
    is_writable: bool
    rest: bytes

    @property
    def tls(self) -> TlsDescription | None:
        """Description of the connection's TLS; None without TLS, or after its end."""

    @property
    def is_backlogged(self) -> bool:
        """Whether so much is unsent that the session should send no more replies."""

    def write(self, octets: Octets) -> None:
        """Send frames; the caller must not change `octets` afterwards.

        Those of a large message go a part at a time; what is sent later comes after them.
        """

    def pause_reading(self, reason: object) -> None:
        """Stop reading the socket until every reason is lifted."""

    def resume_reading(self, reason: object) -> None:
        """Lift one reason for not reading."""

    def handshake_done(self) -> None:
        """Cancel the timeout of the handshake."""

    def begin_heartbeats(self, interval_seconds: int) -> None:
        """Send heartbeats and watch the peer for silence; an interval of 0 does neither."""

    def close(self, *, peer_is_first: bool = False) -> None:
        """Send nothing more; close the socket when the peer closes its side, or after a timeout.

        Args:
            peer_is_first: Whether the peer has a moment to do so before it reads the end.
        """

    def close_later(self) -> None:
        """Wait for the peer's connection.close-ok, at most a few seconds, then close the socket."""

    def close_in_silence(self) -> None:
        """Close the socket after a delay, without a reply: this slows down password guessing."""
