"""A client inside the server: what commands declare and delete goes the way of every client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqp_server.broker.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from amqp_server.broker.broker import Broker
    from amqp_server.broker.virtual_host import VirtualHost
    from amqp_server.protocol.errors import SoftError


class InnerClient:
    """A client that is told nothing: whoever acts through it awaits what handlers return.

    Args:
        name: Who acts, for logs.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.user = ""
        self.frame_max = 131_072
        self.notifies_cancel = self.qos_reaches_consumers = False
        self.channels: dict[int, Channel] = {}

    @property
    def is_writable(self) -> bool:
        """Never: nothing is delivered to it."""
        return False

    def write(self, octets: bytes | bytearray) -> None:
        """Drop frames: nobody reads them."""

    def reply_in_order(self, send: Callable[[], None]) -> None:
        """Drop an answer: whoever asked has it from the handler."""

    def pause_reading(self, reason: object) -> None:
        """Do nothing: nothing is read."""

    def resume_reading(self, reason: object) -> None:
        """Do nothing: nothing is read."""

    def close_channel(self, number: int, error: SoftError) -> None:
        """Do nothing: what fails is raised by the handler."""


def inner_channel(name: str, vhost: VirtualHost, broker: Broker) -> Channel:
    """Return a channel for handlers, of a client of its own.

    Args:
        name: Who acts, for logs.
        vhost: Where.
        broker: Of which server.
    """
    return Channel(1, InnerClient(name), vhost, broker)
