"""Clients that the server does not read, because a queue that they publish to is (almost) full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.consuming.consumer import Consumer


class Throttled(Protocol):
    """Publisher that waits for room: a client that is not read, in most cases."""

    def pause_reading(self, reason: object) -> None:
        """Stop until `resume_reading` was called for this and every other reason."""

    def resume_reading(self, reason: object) -> None:
        """Remove one reason; it goes on without any."""


class ThrottledPublishers:
    """The publishers of one queue that are throttled now."""

    __slots__ = ("_clients",)

    def __init__(self) -> None:
        self._clients: set[Throttled] = set()

    def has_unthrottled(self, consumers: Iterable[Consumer]) -> bool:
        """Return whether one of `consumers` has a client that this queue does not throttle."""
        return any(consumer.channel.client not in self._clients for consumer in consumers)

    def throttle(self, client: Throttled) -> None:
        """Stop reading from a client until the store has room."""
        self._clients.add(client)
        client.pause_reading(self)

    def resume(self) -> None:
        """Read all throttled clients again: the store has room."""
        if self._clients:
            clients, self._clients = self._clients, set()
            for client in clients:
                client.resume_reading(self)
