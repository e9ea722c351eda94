"""Clients that the server does not read, because a queue that they publish to is (almost) full."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from amqp_server.broker.client import Client
    from amqp_server.broker.consuming.consumer import Consumer


class ThrottledPublishers:
    """The publishers of one queue that are throttled now."""

    __slots__ = ("_clients",)

    def __init__(self) -> None:
        self._clients: set[Client] = set()

    def has_unthrottled(self, consumers: Iterable[Consumer]) -> bool:
        """Return whether one of `consumers` has a client that this queue does not throttle."""
        return any(consumer.channel.client not in self._clients for consumer in consumers)

    def throttle(self, client: Client) -> None:
        """Stop reading from a client until the store has room."""
        self._clients.add(client)
        client.pause_reading(self)

    def resume(self) -> None:
        """Read all throttled clients again: the store has room."""
        if self._clients:
            clients, self._clients = self._clients, set()
            for client in clients:
                client.resume_reading(self)
