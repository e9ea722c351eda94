"""What the broker knows of a client's connection: a link to write to, nothing of sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.channel import Channel
    from amqp_server.protocol.errors import SoftError


class Client(Protocol):
    """One connected client, as its channels see it.

    Attributes:
        name: Peer and local address, for logs.
        user: Who logged in.
        frame_max: Negotiated frame size in octets.
        notifies_cancel: Whether it asked to be told when a consumer is cancelled.
        qos_reaches_consumers: Whether its basic.qos without `global` changes consumers that run.
        channels: Its open channels by number.
    """

    name: str
    user: str
    frame_max: int
    notifies_cancel: bool
    qos_reaches_consumers: bool
    channels: dict[int, Channel]

    @property
    def is_writable(self) -> bool:
        """Whether its write buffer has room for deliveries."""

    def write(self, octets: bytes | bytearray) -> None:
        """Send frames; never blocks."""

    def reply_in_order(self, send: Callable[[], None]) -> None:
        """Answer a method, at once or when all methods before it are answered."""

    def pause_reading(self, reason: object) -> None:
        """Stop reading until `reason`, and every other one given, has been lifted."""

    def resume_reading(self, reason: object) -> None:
        """Lift one reason."""

    def close_channel(self, number: int, error: SoftError) -> None:
        """End a channel with an error, and send the peer why; one that is closed stays so."""
